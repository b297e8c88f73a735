using System.Text;
using Whimbrel.Tool.Top;

namespace Whimbrel.Tool.Tests;

// Snapshots to text, without a server.
public class TopViewTests
{
    private static readonly DateTimeOffset s_started = new(2026, 5, 4, 3, 2, 1, TimeSpan.Zero);

    private static TopLoop Loop(int index, int times) => new()
    {
        Index = index, Connections = 3, Turns = 1000 * times, EmptyTurns = 250 * times, Completions = 2500 * times,
        Wakes = 5 * times, Sends = 100 * times, CpuMs = 500 * times,
        BytesReceived = 2048 * times, BytesSent = 102_400 * times, BytesPending = 1536, Timers = 7, BlockedTurns = 1,
    };

    private static TopServer Server(int times, string address = "127.0.0.1:1111") => new()
    {
        Addresses = [address], Accepting = true, StartedAt = s_started, Sessions = 6, Accepted = 20 * times,
        Rejected = 1, Refused = 2, Shed = 3, SlowConsumers = 4, BroadcastsDropped = 5,
        MessagesReceived = 3000 * times, BytesReceived = 4096 * times, BytesSent = 204_800 * times, BytesPending = 3072,
        Slowest = [new TopSlow { Id = 17, Peer = "10.0.0.1:5000", Loop = 1, BytesPending = 3072, LimitBytes = 4096 }],
    };

    private static TopSnapshot Snapshot(int times) => new()
    {
        Whimbrel = 1, Pid = 42, TimeMs = 1000 + (2000 * times), Engine = new TopEngine
        {
            Kind = "epoll",
            MailboxBytes = 512,
            SendsRefused = 8,
            BroadcastsRefused = 9,
            UserExceptions = 10
        },
        Loops = [Loop(0, times), Loop(1, times)], Servers = [Server(times)],
    };

    [Fact]
    public void Two_snapshots_two_seconds_apart_give_rates_and_what_is_now()
    {
        var screen = TopView.Screen(Snapshot(1), Snapshot(2), 200, 50);
        Assert.Equal(
            [
                "process 42, epoll, 2 loops, since 2026-05-04 03:02:01Z; mailboxes 512 B, refused 8 sends, 9 "
                + "broadcasts; 10 exceptions",
                "",
                "SERVER                           CONNS   NEW/S   AWAY    MSGS/S      IN/S     OUT/S    QUEUED  "
                + "SLOW  DROPPED",
                "127.0.0.1:1111                       6      10      6     1,500   2.0 KiB 100.0 KiB   3.0 "
                + "KiB     4        5",
                "",
                "SLOWEST                          SESSION  LOOP     QUEUED  OF LIMIT",
                "10.0.0.1:5000                         17     1    3.0 KiB      75 %",
                "",
                " LOOP    CONNS     CPU   TURNS/S   EMPTY  PER TURN   WAKES/S       IN/S      OUT/S   PER SEND     "
                + "QUEUED  TIMERS  BLOCKED",
                "    0        3  25.0 %       500    25 %       2.5       2.5    1.0 KiB   50.0 KiB    1.0 KiB    "
                + "1.5 KiB       7        1",
                "    1        3  25.0 %       500    25 %       2.5       2.5    1.0 KiB   50.0 KiB    1.0 KiB    "
                + "1.5 KiB       7        1",
            ],
            screen);
    }

    [Fact]
    public void Groups_and_the_last_three_notices_are_shown_without_control_characters()
    {
        DateTimeOffset at = new(2026, 5, 4, 3, 2, 1, TimeSpan.Zero);
        TopSnapshot now = Snapshot(2) with
        {
            Servers = [Server(2) with
            {
                GroupCount = 7, Groups = [new TopGroup { Name = "blue\e[31m", Members = 1200 }, null],
            }],
            Notices = [null, .. Enumerable.Range(0, 5).Select(i => new TopNotice
            {
                At = at.AddSeconds(-i), Message = $"number {i}", Page = "slow-consumer.md"
            })],
        };
        var screen = TopView.Screen(Snapshot(1), now, 200, 50);
        Assert.Equal("  7 groups: blue?[31m (1,200)", screen[4]);
        Assert.Equal(
            ["LAST NOTICES", "03:02:01Z number 0 (whimbrel explain slow-consumer)",
                "03:02:00Z number 1 (whimbrel explain slow-consumer)",
                "03:01:59Z number 2 (whimbrel explain slow-consumer)"], screen[^4..]);
    }

    [Fact]
    public void The_first_look_has_no_rates_and_neither_has_another_process_or_another_start()
    {
        var first = TopView.Screen(null, Snapshot(1), 200, 50);
        Assert.Equal("127.0.0.1:1111                       6       -      6         -         -         -   3.0 "
            + "KiB     4        5", first[3]);
        Assert.Equal("    0        3       -         -       -         -         -          -          -          -"
            + "    1.5 KiB       7        1", first[9]);
        Assert.Equal(first[2..], TopView.Screen(Snapshot(1) with { Pid = 41 }, Snapshot(1), 200, 50)[2..]);
        Assert.Equal(first[3],
            TopView.Screen(Snapshot(1) with { Servers = [Server(1) with { StartedAt = s_started.AddSeconds(1) }] },
                Snapshot(2), 200, 50)[3]);
        // Two snapshots of the same time: rates cannot be computed.
        Assert.Equal(first[2..], TopView.Screen(Snapshot(1), Snapshot(1), 200, 50)[2..]);
    }

    [Fact]
    public void Native_memory_is_shown_if_the_server_reports_it()
    {
        var loop = Loop(0, 1) with { BlockBytes = 1024, EngineBytes = 2048, TlsConnections = 600 };
        var reported = Snapshot(1) with { Loops = [loop, loop with { Index = 1 }] };
        Assert.Equal("native memory: blocks 2.0 KiB, engine 4.0 KiB; 1,200 connections in OpenSSL",
            TopView.Screen(null, reported, 200, 50)[1]);
        Assert.Equal("native memory: blocks 2.0 KiB, engine 4.0 KiB, C heap 3.0 MiB; 1,200 connections in OpenSSL",
            TopView.Screen(null, reported with { Engine = new TopEngine { HeapUsedBytes = 3 * 1024 * 1024 } }, 200,
                50)[1]);
    }

    [Fact]
    public void A_line_is_the_sum_of_the_servers_and_a_server_that_is_new_does_not_jump()
    {
        Assert.Equal(
            "6 connections, 10 new/s, 1,500 messages/s, 2.0 KiB/s in, 100.0 KiB/s out, 3.0 KiB queued, 6 turned away, "
            + "4 slow ended, 10 exceptions",
            TopView.Line(Snapshot(1), Snapshot(2)));
        var two = Snapshot(2) with
        {
            Servers = [Server(2), Server(500, "[::1]:2")],
            Loops = [Loop(0, 2), Loop(1, 2) with { Running = "OnReceived of Chat" }]
        };
        Assert.Equal(
            "12 connections, 10 new/s, 1,500 messages/s, 2.0 KiB/s in, 100.0 KiB/s out, 6.0 KiB queued, 12 turned "
            + "away, 8 slow ended, 10 exceptions; loop 1 is blocked by OnReceived of Chat",
            TopView.Line(Snapshot(1), two));
    }

    [Theory]
    [InlineData(200, 5)]
    [InlineData(40, 3)]
    [InlineData(2, 1)]
    [InlineData(80, 11)]
    public void A_screen_is_never_larger_than_the_terminal(int width, int height)
    {
        var screen = TopView.Screen(Snapshot(1), Snapshot(2), width, height);
        Assert.InRange(screen.Count, 1, height);
        Assert.All(screen, line => Assert.InRange(line.Length, 0, width));
        if (height < 11)
            Assert.StartsWith($"({11 - height + 1} more lines"[..Math.Min(width, 12)], screen[^1],
                StringComparison.Ordinal);
    }

    [Fact]
    public void Texts_of_a_server_never_control_the_terminal()
    {
        var evil = Snapshot(2) with
        {
            Servers = [Server(2, "a\e[2Jb\r\n\u009b") with { Slowest = [new TopSlow { Peer = "\e]0;title\a" }] }],
            Loops = [Loop(0, 2) with { Running = "x\ny" }],
        };
        Assert.All(TopView.Screen(Snapshot(1), evil, 200, 50).Append(TopView.Line(Snapshot(1), evil)),
            static line => Assert.DoesNotContain(line, char.IsControl));
    }

    [Fact]
    public void Servers_with_TLS_or_closed_or_left_out_are_marked()
    {
        var secure = Snapshot(2) with
        {
            Servers = [Server(2) with
            {
                Tls = true,
                Accepting = false,
                TlsHandshakes = 8,
                TlsFailed = 3,
                Addresses = ["a", "b", "c"]
            }],
            ServersLeftOut = 12
        };
        var before = Snapshot(1) with { Servers = [Server(1) with { TlsHandshakes = 2, Addresses = ["a", "b", "c"] }] };
        var screen = TopView.Screen(before, secure, 200, 50);
        Assert.StartsWith("a +2 (closed) ", screen[3], StringComparison.Ordinal);
        Assert.Equal("  TLS: 3 handshakes/s, 3 failed", screen[4]);
        Assert.Equal("(12 more servers)", screen[5]);
    }

    [Theory]
    [InlineData("", 0)]
    [InlineData("null", 0)]
    [InlineData("[1]", 0)]
    [InlineData("{\"whimbrel\":\"1\"}", 0)]
    [InlineData("{\"whimbrel\":9,\"loops\":{}}", 9)]
    [InlineData("{\"whimbrel\":1,\"engine\":null}", 1)]
    [InlineData("{\"whimbrel\":1,\"servers\":[{\"slowest\":null}]}", 1)]
    [InlineData("{\"whimbrel\":1,\"loops\":[{\"turns\":\"many\"}]}", 1)]
    public void A_line_that_is_no_status_is_rejected(string line, int version)
    {
        Assert.Null(TopSnapshot.Read(Encoding.UTF8.GetBytes(line), out var said));
        Assert.Equal(version, said);
    }

    [Fact]
    public void A_line_with_fields_that_are_not_known_yet_is_read_and_shown()
    {
        var read = TopSnapshot.Read("{\"whimbrel\":1,\"pid\":5,\"new\":{\"a\":[]},\"loops\":[{\"index\":0,\"more\":"u8
            + "1}],\"servers\":[{}]}"u8, out _);
        Assert.NotNull(read);
        Assert.NotEmpty(TopView.Screen(null, read, 80, 24));
        Assert.NotEmpty(TopView.Line(read, read));
    }
}
