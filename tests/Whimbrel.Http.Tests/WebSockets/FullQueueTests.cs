using System.Text;
using Whimbrel.Http.Parsing;
using Whimbrel.Http.Tests.WebSockets.Cases;

namespace Whimbrel.Http.Tests.WebSockets;

// Frames that this end must send itself (pong, close) when the peer does not read and the send queue is full. At a
// client, which applies no back-pressure.
public sealed class FullQueueTests
{
    private static CaseLink Fill(WebSocketOptions options)
    {
        CaseLink link = new(WebSocketRole.Client, options);
        link.Peer.IsReading = false;
        FillUp(link);
        Assert.InRange(link.Session.BytesPending, link.Session.SendLimitBytes - 14, link.Session.SendLimitBytes);
        return link;
    }

    private static void FillUp(CaseLink link)
    {
        // What the transport accepts makes room in the queue.
        for (int i = 0; i < 3; i++)
        {
            link.Peer.OnLoop(() =>
            {
                int room;
                while ((room = (int)(link.Session.SendLimitBytes - link.Session.BytesPending) - 14) >= 0)
                    Assert.Equal(SendResult.Queued, link.Session.SendBinary(new byte[Math.Min(room, 10_000)]));
            });
        }
    }

    private static List<string> Told(CaseLink link)
    {
        link.Peer.IsReading = true;
        link.Peer.Run();
        return [.. Case.Events(link.Received, WebSocketRole.Client)
            .Where(static e => !e.StartsWith("Binary", StringComparison.Ordinal))];
    }

    private static void Send(CaseLink link, string frames) =>
        link.Peer.Send(FrameTests.Frames(frames, WebSocketRole.Client));

    [Fact]
    public void Pings_do_not_end_it_and_the_first_and_the_last_are_answered_when_there_is_room()
    {
        using CaseLink link = Fill(new WebSocketOptions());
        Send(link, string.Join('|', Enumerable.Range(0, 1000).Select(static i => $"89 the ping of the number {i}")));
        Assert.True(link.Peer.IsConnected);
        Assert.Equal(["Pong the ping of the number 0", "Pong the ping of the number 999"], Told(link));
        Send(link, "89 one more");
        Assert.Equal("Pong one more", Told(link)[^1]);
    }

    [Fact]
    public void Each_full_time_answers_its_own_pings_and_none_of_the_one_before()
    {
        using CaseLink link = Fill(new WebSocketOptions());
        List<string> expected = [];
        for (int time = 0; time < 3; time++)
        {
            if (time > 0)
            {
                link.Peer.IsReading = false;
                FillUp(link);
            }

            Send(link, $"89 a{time}|89 b{time}|89 c{time}");
            expected.AddRange([$"Pong a{time}", $"Pong c{time}"]);
            Assert.Equal(expected, Told(link));
            link.Peer.IsReading = false;
            FillUp(link);
            Send(link, $"89 alone{time}");
            expected.Add($"Pong alone{time}");
            Assert.Equal(expected, Told(link));
        }
    }

    [Fact]
    public void A_close_of_the_peer_is_answered_after_all_pending_data()
    {
        using CaseLink link = Fill(new WebSocketOptions());
        Send(link, "88 \\03\\E8");
        Assert.Equal(["Close 1000"], Told(link));
        Assert.Equal(WebSocketStatus.Normal, link.Session.CloseStatus);
    }

    [Fact]
    public void A_broken_rule_is_reported_after_all_pending_data()
    {
        using CaseLink link = Fill(new WebSocketOptions());
        Send(link, "83");
        Assert.Equal(["Close 1002"], Told(link));
    }

    [Fact]
    public void A_peer_that_reads_its_data_stays_connected_although_it_sends_nothing()
    {
        using CaseLink link = Fill(new WebSocketOptions { Heartbeat = TimeSpan.FromSeconds(30) });
        for (int beat = 0; beat < 6; beat++)
        {
            link.Peer.Advance(TimeSpan.FromSeconds(30));
            Assert.True(link.Peer.IsConnected, $"beat {beat}");
            // The peer reads what is available, then stops; the queue is full again.
            link.Peer.IsReading = true;
            link.Peer.Run();
            link.Peer.IsReading = false;
            FillUp(link);
        }

        link.Peer.Advance(TimeSpan.FromMinutes(3));
        Assert.Equal(CloseCause.LocalAbort, link.Session.Cause);
    }

    [Fact]
    public void A_heartbeat_sends_no_ping_after_unread_data_and_closes_after_two_such_beats()
    {
        using CaseLink link = Fill(new WebSocketOptions { Heartbeat = TimeSpan.FromSeconds(30) });
        link.Peer.Advance(TimeSpan.FromSeconds(31 + 60));
        Assert.True(link.Peer.IsConnected);
        link.Peer.Advance(TimeSpan.FromSeconds(60));
        Assert.Equal(CloseCause.LocalAbort, link.Session.Cause);
    }
}
