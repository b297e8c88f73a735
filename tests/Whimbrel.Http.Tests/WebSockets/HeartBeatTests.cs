using Whimbrel.Http.Tests.Serving;

namespace Whimbrel.Http.Tests.WebSockets;

// The sessions of a loop share one timer (HeartBeats): the heartbeat of a session must not depend on others joining or
// leaving.
public sealed class HeartBeatTests
{
    private static readonly TimeSpan Interval = TimeSpan.FromSeconds(30);

    [Fact]
    public void Many_sessions_have_one_timer_and_the_last_one_takes_it_along()
    {
        using Web web = new();
        web.Server.WebSocket("/ws", static () => new WsSession(), new WebSocketOptions { Heartbeat = Interval });
        int before = Timers(web);
        List<WsPeer> peers = [new(web)];
        int withOne = Timers(web);
        for (int i = 0; i < 49; i++) peers.Add(new WsPeer(web));
        Assert.Equal((before + 1, before + 1), (withOne, Timers(web)));
        foreach (WsPeer peer in peers) peer.Peer.Reset();
        web.Network.Run();
        Assert.Equal(before, Timers(web));

        static int Timers(Web web) => web.Network.Engine.GetLoop(0).ReadCounters().Timers;
    }

    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public void Each_session_is_pinged_at_its_own_time_whichever_others_join_and_leave(Scheduling scheduling)
    {
        for (int seed = 0; seed < 40; seed++)
        {
            Random random = new(seed);
            using Web web = new(scheduling: scheduling);
            web.Server.WebSocket("/ws", static () => new WsSession(), new WebSocketOptions { Heartbeat = Interval });
            web.Server.WebSocket("/slow", static () => new WsSession(),
                new WebSocketOptions { Heartbeat = Interval * 3 });
            List<(WsPeer Peer, int Interval, int Since, int Pings)> live = [];
            for (int now = 0; now < 400; now++)
            {
                if (random.Next(4) == 0)
                    live.Add(
                        random.Next(4) == 0 ? (new WsPeer(web, "/slow"), 90, now, 0) : (new WsPeer(web), 30, now, 0));
                if (live.Count > 0 && random.Next(12) == 0 && random.Next(live.Count) is int index
                    && live[index].Peer.Peer.IsConnected)
                {
                    if (random.Next(2) == 0) live[index].Peer.Peer.Reset();
                    else live[index].Peer.Send("88 \\03\\E8");
                    live.RemoveAt(index);
                }

                web.Network.Advance(TimeSpan.FromSeconds(0.5));
                for (int i = live.Count - 1; i >= 0; i--)
                {
                    (WsPeer peer, int interval, int since, int pings) = live[i];
                    pings += peer.Read().Count(static e => e == "Ping ");
                    // The first beat is during the handshake, the next two send pings, and the fourth closes the
                    // connection.
                    int beats = (now - since) / interval;
                    Assert.True(pings == Math.Clamp(beats - 1, 0, 2),
                        $"seed {seed}: {pings} pings {now - since} s after the handshake, a beat each {interval} s");
                    Assert.True(peer.Peer.IsConnected == beats < 4,
                        $"seed {seed}: {now - since} s after the handshake, a beat each {interval} s");
                    if (beats < 4) live[i] = (peer, interval, since, pings);
                    else live.RemoveAt(i);
                }

                web.Network.Advance(TimeSpan.FromSeconds(0.5));
            }
        }
    }
}
