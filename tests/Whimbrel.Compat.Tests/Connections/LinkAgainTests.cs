using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using NetCoreServer;
using Whimbrel.Compat.Links;

namespace Whimbrel.Compat.Tests.Connections;

// What an object of the old API must reset for each of its connections, waits from both sides, and limits.
public sealed class LinkAgainTests
{
    private static byte[] Pattern(int length) => [.. Enumerable.Range(0, length).Select(static i => (byte)(i * 7))];

    private static RecordingServer Serve(Log log, Action<RecordingSession>? atConnected = null,
        Action<RecordingSession>? made = null)
    {
        RecordingServer server = new(log)
        {
            Make = s =>
            {
                RecordingSession session = new(s) { AtConnected = atConnected };
                made?.Invoke(session);
                return session;
            }
        };
        Assert.True(server.Start());
        return server;
    }

    [Fact] // more than is kept, in parts that are smaller than what is kept
    public void Each_connection_is_read_to_its_end_by_calls_of_Receive()
    {
        byte[] all = Pattern(300_000);
        using RecordingServer server = Serve(new Log(), s => s.SendAsync(all));
        using RecordingClient client = new(new Log(), server.Chosen);
        for (int connection = 0; connection < 3; connection++)
        {
            Assert.True(client.Connect());
            byte[] got = new byte[all.Length], part = new byte[1_000];
            for (int at = 0, count; at < got.Length; at += count)
            {
                count = (int)client.Receive(part);
                Assert.InRange(count, 1, part.Length);
                part.AsSpan(0, count).CopyTo(got.AsSpan(at));
            }

            Assert.Equal(all, got);
            Assert.True(client.Disconnect());
        }
    }

    [Fact] // each connection ends while it is not read
    public void Each_connection_that_nobody_reads_is_read_up_to_a_limit()
    {
        RecordingSession? session = null;
        using RecordingServer server = Serve(new Log(), static s => s.SendAsync(new byte[32 * 1024 * 1024]),
            s => Volatile.Write(ref session, s));
        using RecordingClient client = new(new Log(), server.Chosen);
        for (int connection = 0; connection < 3; connection++)
        {
            Assert.True(client.Connect());
            Assert.InRange(client.Receive(new byte[100]), 1, 100);
            long before;
            do
            {
                before = Volatile.Read(ref session)!.BytesSent;
                Thread.Sleep(50); // tidy: waits because the sender stops when the system takes no more
            }
            while (Volatile.Read(ref session)!.BytesSent != before);
            Assert.InRange(client.BytesReceived, 1, 1024 * 1024);
            Assert.True(client.Disconnect());
        }
    }

    [Fact]
    public void The_end_of_a_connection_wakes_all_callers_of_Receive()
    {
        Log log = new();
        using RecordingServer server = Serve(log);
        using RecordingClient client = new(new Log(), server.Chosen);
        for (int connection = 1; connection <= 2; connection++)
        {
            Assert.True(client.Connect());
            log.Until("server: connected", connection);
            int woken = 0;
            Thread[] threads = [.. Enumerable.Range(0, 4).Select(_ => new Thread(() =>
            {
                Assert.Equal(0, client.Receive(new byte[10]));
                Interlocked.Increment(ref woken);
            }) { IsBackground = true })];
            foreach (Thread thread in threads) thread.Start();
            Log.Until(() => threads.All(static t => (t.ThreadState & System.Threading.ThreadState.WaitSleepJoin) != 0),
                "all to wait");
            Assert.True(server.DisconnectAll());
            Log.Until(() => woken == threads.Length, $"all to be woken; {woken} were");
            Log.Until(() => !client.IsConnected, "the end");
        }
    }

    [Fact] // the options of a Socket end with its connection
    public async Task A_ReceiveTimeout_does_not_hold_for_the_next_connection()
    {
        RecordingSession? session = null;
        Log log = new(), clientLog = new();
        using RecordingServer server = Serve(log, made: s => Volatile.Write(ref session, s));
        using RecordingClient client = new(clientLog, server.Chosen);
        Assert.True(client.Connect());
        Socket first = client.Socket!;
        first.ReceiveTimeout = 30;
        Assert.Equal(0, client.Receive(new byte[10]));
        Assert.False(client.IsConnected);
        Assert.True(client.Connect());
        log.Until("server: connected", 2);
        Task<long> receive = Task.Run(() => client.Receive(new byte[10]));
        // tidy: waits because a receive must still wait after ten times the timeout of the connection before
        Assert.NotSame(receive, await Task.WhenAny(receive, Task.Delay(300)));
        Assert.True(Volatile.Read(ref session)!.SendAsync("late"));
        Assert.Equal((4, true), (await receive.WaitAsync(Log.Patience), client.IsConnected));
        Assert.NotSame(first, client.Socket);
    }

    [Fact]
    public void Each_connection_is_reported_by_all_its_callbacks()
    {
        Log log = new(), serverLog = new();
        using RecordingServer server = Serve(serverLog);
        using RecordingClient client = new(log, server.Chosen);
        List<string> expected = [];
        for (int connection = 1; connection <= 3; connection++)
        {
            Assert.True(client.Connect());
            serverLog.Until("server: connected", connection);
            if (connection == 2) Assert.True(server.DisconnectAll());
            else Assert.True(client.Disconnect());
            expected.AddRange(["client: connecting False", "client: connected True", "client: disconnecting True",
                "client: disconnected False"]);
            log.Until("client: disconnected False", connection);
            Assert.Equal(expected, log.Lines);
        }
    }

    [Fact] // slow growth: the budget that all connections of the process share
    public void What_a_connection_has_queued_leaves_the_budget_with_its_end()
    {
        long before = SendBudget.Used;
        List<RecordingSession> sessions = [];
        Log log = new();
        using RecordingServer server = Serve(log, made: sessions.Add);
        for (int i = 1; i <= 3; i++)
        {
            using Socket peer = Cost.Connect(server.Chosen);
            log.Until("server: connected", i);
            for (int sent = 0; sent < 32; sent++) Assert.True(sessions[^1].SendAsync(new byte[1024 * 1024]));
            Assert.InRange(SendBudget.Used - before, 1024 * 1024, long.MaxValue);
            if (i == 1)
            {
                // Some of it leaves: a smaller charge replaces the larger one.
                Cost.Read(peer, new byte[16 * 1024 * 1024]);
                Assert.True(sessions[^1].SendAsync(new byte[64 * 1024]));
            }

            peer.Close(0);
            log.Until("server: disconnected", i);
            Log.Until(() => SendBudget.Used <= before, $"an empty budget; there are {SendBudget.Used - before} bytes");
        }
    }

    [Theory] // 200 ms without progress, from both sides
    [InlineData("Disconnect")]
    [InlineData("DisconnectAll")]
    [InlineData("Stop")]
    [Trait("Runs", "quiet")]
    public void An_end_waits_a_fifth_of_a_second_for_a_peer_that_takes_nothing(string how)
    {
        RecordingSession? session = null;
        Log log = new();
        using RecordingServer server = Serve(log, made: s => Volatile.Write(ref session, s));
        using Socket peer = Cost.Connect(server.Chosen);
        log.Until("server: connected");
        Assert.True(session!.SendAsync(new byte[32 * 1024 * 1024]));
        long before;
        do
        {
            before = session.BytesSent;
            Thread.Sleep(50); // tidy: waits because the sender stops when the system takes no more
        }
        while (session.BytesSent != before || before == 0);
        long began = Stopwatch.GetTimestamp();
        Assert.True(how switch
        {
            "Disconnect" => session.Disconnect(),
            "DisconnectAll" => server.DisconnectAll(),
            _ => server.Stop()
        });
        Assert.InRange(Stopwatch.GetElapsedTime(began).TotalMilliseconds, 150, 1_500);
        peer.Close(0);
    }

    [Theory]
    [InlineData(1000, true)]
    [InlineData(1001, false)]
    public void A_send_of_exactly_the_limit_is_accepted_and_one_byte_more_is_not(int length, bool isAccepted)
    {
        RecordingSession? session = null;
        Log log = new();
        using RecordingServer server = Serve(log, made: s =>
        {
            s.OptionSendBufferLimit = 1000;
            Volatile.Write(ref session, s);
        });
        using RecordingClient client = new(new Log(), server.Chosen);
        Assert.True(client.ConnectAsync());
        log.Until("server: connected");
        for (int i = 0; i < 3; i++)
        {
            Log.Until(() => session!.BytesPending == 0, "an empty queue");
            Assert.Equal(isAccepted, session!.SendAsync(new byte[length]));
        }

        Assert.Equal(isAccepted ? 0 : 3, log.Count("session: error NoBufferSpaceAvailable"));
    }

    [Fact] // after a start that failed, nothing is left
    public void A_server_starts_after_each_start_that_failed()
    {
        using RecordingServer holder = new(new Log());
        for (int time = 0; time < 3; time++)
        {
            Assert.True(holder.Start());
            Log log = new();
            using RecordingServer server = new(log, holder.Chosen);
            for (int i = 0; i < 2; i++)
            {
                Assert.Throws<SocketException>(() => server.Start());
                Assert.False(server.IsStarted);
            }

            Assert.True(holder.Stop());
            Assert.True(server.Start());
            using RecordingClient client = new(new Log(), server.Chosen);
            Assert.True(client.Connect());
            Assert.True(server.Stop());
        }
    }
}
