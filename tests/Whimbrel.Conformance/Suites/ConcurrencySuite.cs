using System.Net;

namespace Whimbrel.Conformance;

/// <summary> Contract 2: callbacks of one session never overlap and never nest. <see cref="RecordingSession"/> checks
/// this; these tests cause the situations. </summary>
public abstract class ConcurrencySuite(Transport transport) : Suite(transport)
{
    [Theory, Contract(2)]
    [InlineData("OnConnecting", 1)]
    [InlineData("OnConnected", 1)]
    [InlineData("OnReceived", 1)]
    [InlineData("OnTimer", 1)]
    [InlineData("OnEndOfStream", 1)]
    [InlineData("OnDisconnected", 1)]
    [InlineData("OnReceived", 2)]
    [InlineData("OnDisconnected", 2)]
    public void No_callback_begins_inside_another_whatever_it_calls(string where, int loops) => Run(
        rig =>
        {
            SessionGroup group = new("everybody");
            List<RecordingClient> clients = [];
            int rounds = 0;
            RecordingServer? server = null;
            server = rig.Serve(
                s =>
                {
                    s.AtConnected = x =>
                    {
                        group.Join(x);
                        if (where == "OnConnected") DoEverything(x);
                        if (where == "OnTimer") x.CallStartTimer(TimeSpan.Zero);
                    };
                    s.AtConnecting = x => Here("OnConnecting", x);
                    s.AtReceived = (x, _) => Here("OnReceived", x);
                    s.AtTimer = (x, _) => Here("OnTimer", x);
                    s.AtEndOfStream = x =>
                    {
                        Here("OnEndOfStream", x);
                        x.Close();
                    };
                    s.AtDisconnected = (x, _) => Here("OnDisconnected", x);
                },
                new ServerOptions
                {
                    Engine = rig.Engine,
                    EndPoint = rig.NewAddress(),
                    Limits = new() { SendBytes = 64 * 1024, SlowConsumer = SlowConsumer.Disconnect }
                });
            void Here(string name, RecordingSession x)
            {
                if (name == where) DoEverything(x);
            }

            void DoEverything(RecordingSession x)
            {
                // With real cryptography each connect costs milliseconds on both sides.
                if (Interlocked.Increment(ref rounds) > (rig.Tls == TlsKind.Portable ? 6 : 50)) return;
                x.Send(new byte[20_000]);
                x.Send(Outgoing.Pieces("a"u8, "b"u8));
                server!.Broadcast("to all"u8);
                group.Broadcast(new byte[1000], x);
                x.PauseReceiving();
                x.ResumeReceiving();
                if (x.IsConnected)
                {
                    if (!x.CallReserve(10).IsEmpty) x.CallCommit(5);
                    x.CallStartTimer(TimeSpan.Zero);
                }

                RecordingSession[] others = [.. server.Made.Where(o => o != x && o.IsConnected)];
                if (others.Length > 0) others[0].Send(new byte[70_000]);
                if (others.Length > 1) others[1].Abort();
                if (others.Length > 2) others[2].Close();
                if (others.Length > 3) others[3].ShutdownSend();
                RecordingClient client = rig.MakeClient(server.EndPoint!);
                lock (clients) clients.Add(client);
                _ = client.ConnectAsync().AsTask();
                _ = x.SendAsync(new byte[80_000]).AsTask();
            }

            for (int i = 0; i < 8; i++)
            {
                Peer peer;
                try
                {
                    peer = rig.ConnectPeer(server.EndPoint!);
                }
                catch (System.Net.Sockets.SocketException e)
                    when (e.SocketErrorCode == System.Net.Sockets.SocketError.ConnectionReset)
                {
                    // Another session aborted it before this thread saw that it was connected.
                    continue;
                }

                Try(() => peer.TryWrite("x"u8));
                if (i % 2 == 0) Try(peer.ShutdownSend);
            }

            rig.Until(() => Volatile.Read(ref rounds) > 0, "the callback to run");
            rig.Settle();
        },
        loops);

    [Fact, Contract(2)]
    public void Ending_other_sessions_inside_a_callback_notifies_them_after_it() => Run(
        rig =>
        {
            int running = 0, inside = 0;
            RecordingServer? server = null;
            server = rig.Serve(s =>
            {
                s.AtReceived = (x, _) =>
                {
                    running++;
                    foreach (RecordingSession other in server!.Made.Where(o => o != x)) other.Abort();
                    running--;
                };
                s.AtDisconnected = (_, _) => inside += running;
            });
            Peer[] peers = [.. Enumerable.Range(0, 10).Select(_ => rig.ConnectPeer(server.EndPoint!))];
            for (int i = 0; i < peers.Length; i++) server.Connected(i);
            peers[0].Write("x");
            rig.Until(() => server.Made.Count(static s => s.IsOver) == 9, "nine sessions to end");
            // With thread-pool scheduling the callbacks run concurrently, as they belong to different sessions.
            if (!rig.IsPool) Assert.Equal(0, inside);
            Assert.Equal(9, server.Made.Count(static s => s.IsOver && s.Reason.Cause == CloseCause.LocalAbort));
        },
        loops: 1);

    [Fact, Contract(2, 8)]
    public void A_broadcast_that_ends_slow_members_notifies_them_after_the_callback() => Run(
        rig =>
        {
            Assert.SkipWhen(rig.IsPool,
                "A broadcast from the pool goes through the loop's mailbox, and the loop may send in between.");
            RecordingServer? server = null;
            server = rig.Serve(
                s => s.AtReceived = (_, _) =>
                {
                    for (int i = 0; i < 10; i++) server!.Broadcast(new byte[2000]);
                },
                new ServerOptions
                {
                    Engine = rig.Engine,
                    EndPoint = rig.NewAddress(),
                    Limits = new() { SendBytes = 4096 }
                });
            Peer[] peers = [.. Enumerable.Range(0, 5).Select(_ => rig.ConnectPeer(server.EndPoint!))];
            for (int i = 0; i < peers.Length; i++) server.Connected(i);
            rig.Until(() => server.Events.Count(static e => e == "connected") == 5, "all to be announced");
            peers[0].Write("x");
            Assert.All(server.Made, static s => Assert.Equal(CloseCause.SlowConsumer, s.End()));
        },
        loops: 1);

    [Fact, Contract(2)]
    public void A_failing_send_inside_a_callback_ends_the_session_after_it() => Run(
        rig =>
        {
            RecordingServer server = rig.Serve(static s =>
            {
                s.AtConnected = static x => x.PauseReceiving();
                // Large enough to be sent immediately.
                s.AtTimer = static (x, _) => x.Tag = (x.Send(new byte[100_000]), x.IsConnected, x.Send("x"u8));
            });
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            RecordingSession session = server.Connected();
            rig.Settle(); // with thread-pool scheduling the pause is a post to the loop
            peer.Reset();
            rig.Settle();
            rig.OnLoop(session, () => session.CallStartTimer(TimeSpan.Zero));
            Assert.Equal(CloseCause.PeerReset, session.End());
            Assert.Equal("connecting, connected, timer, disconnected PeerReset", session.Life);
        },
        loops: 1);

    [Fact, Contract(1, 2, 5)]
    public void After_a_storm_from_many_threads_every_callback_order_is_legal() => Run(rig =>
    {
        int rounds = Depth.IsDeep ? 2000 : 150;
        RecordingServer? server = null;
        server = rig.Serve(
            s =>
            {
                s.AtReceived = static (x, data) => x.Send(data);
                s.AtConnected = static x => x.CallStartTimer(TimeSpan.FromMilliseconds(1),
                    TimeSpan.FromMilliseconds(1));
                s.AtTimer = static (x, _) => x.Send("tick"u8);
            },
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Limits = new() { SlowConsumer = SlowConsumer.DropNewest }
            });
        RecordingClient[] clients = [.. Enumerable.Range(0, 8)
            .Select(_ => rig.MakeClient(server.EndPoint!, static s => s.AtReceived = static (_, _) => { }))];
        for (int t = 0; t < 4; t++)
        {
            int thread = t;
            rig.Elsewhere(() =>
            {
                Random random = new(thread);
                for (int i = 0; i < rounds; i++)
                {
                    RecordingClient client = clients[random.Next(clients.Length)];
                    Session? mine = client.Session;
                    IReadOnlyList<RecordingSession> made = server.Made;
                    RecordingSession? other = made.Count == 0 ? null : made[random.Next(made.Count)];
                    switch (random.Next(12))
                    {
                        case 0 or 1 or 2 when mine is null:
                            Try(() => _ = client.ConnectAsync().AsTask());
                            break;
                        case 3:
                            mine?.Abort();
                            break;
                        case 4:
                            mine?.Close();
                            break;
                        case 5:
                            other?.Close();
                            break;
                        case 6:
                            server.Broadcast("news"u8, other);
                            break;
                        case 7:
                            other?.PauseReceiving();
                            other?.ResumeReceiving();
                            break;
                        case 8:
                            other?.ShutdownSend();
                            break;
                        case 9:
                            _ = other?.SendAsync(new byte[10_000]).AsTask();
                            break;
                        default:
                            mine?.Send("to the server"u8);
                            other?.Send("to the client"u8);
                            break;
                    }
                }
            });
        }

        rig.Join();
        foreach (RecordingClient client in clients) rig.Await(client.DisposeAsync());
        rig.Until(() => server.SessionCount == 0, "the server's side to end");
        Assert.All(rig.Sessions, static s => s.CheckLife());
        Assert.NotEmpty(rig.Sessions);
    });

    [Fact, Contract(2, 7)]
    public void Both_ends_on_one_loop_exchange_data_without_nested_callbacks() => Run(
        rig =>
        {
            RecordingServer server = rig.Serve(static s => s.AtReceived = static (x, data) => x.Send(data));
            RecordingSession client = rig.Connect(server.EndPoint!, static s =>
            {
                s.AtConnected = static x => x.Send([1]);
                s.AtReceived = static (x, data) =>
                {
                    if (data[0] < 200) x.Send([(byte)(data[0] + 1)]);
                    else x.Close();
                };
            });
            Assert.Equal(CloseCause.LocalClose, client.End());
            Assert.Equal(200, client.ReceivedCount);
        },
        loops: 1);

    private static void Try(Action action)
    {
        try
        {
            action();
        }
        catch (Exception e) when (e is IOException or ObjectDisposedException or InvalidOperationException)
        {
            // Another thread was faster, which a storm intends.
        }
    }
}
