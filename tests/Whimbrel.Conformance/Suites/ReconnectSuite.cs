using System.Net;

namespace Whimbrel.Conformance;

/// <summary>The reconnect policy of a client, and the ways to end it.</summary>
public abstract class ReconnectSuite(Transport transport) : Suite(transport)
{
    private static readonly TimeSpan s_soon = TimeSpan.FromMilliseconds(5);

    /// <summary>Short delays, without effective limits.</summary>
    private static ReconnectPolicy Quick(int? attempts = null, bool retryFirst = true,
        Func<CloseReason, bool>? stopWhen = null) =>
        new()
        {
            InitialDelay = s_soon,
            MaxDelay = s_soon,
            MaxAttempts = attempts,
            RetryFirstConnect = retryFirst,
            StopWhen = stopWhen,
            ResetAfter = TimeSpan.Zero
        };

    /// <summary>A delay so long that only an end of the wait is observed.</summary>
    private static ReconnectPolicy Patient { get; } =
        new() { InitialDelay = TimeSpan.FromHours(1), MaxDelay = TimeSpan.FromHours(1), Jitter = false };

    private static RecordingClient Make(Rig rig, EndPoint endPoint, ReconnectPolicy policy,
        Action<RecordingSession>? setUp = null) =>
        rig.MakeClient(new ClientOptions { Engine = rig.Engine, EndPoint = endPoint, Reconnect = policy }, setUp);

    /// <summary>A server that closes each connection when the other side has sent something.</summary>
    private static RecordingServer Rude(Rig rig) => rig.Serve(static s => s.AtReceived = static (x, _) => x.Close());

    /// <summary>An address of a server that no longer listens.</summary>
    private static EndPoint Deserted(Rig rig)
    {
        RecordingServer server = rig.Serve();
        EndPoint address = server.EndPoint!;
        rig.Await(server.StopAsync());
        return address;
    }

    // ------------------------------------------------------------------ at work

    [Fact]
    public void After_an_end_it_reconnects_with_a_new_session() => Run(rig =>
    {
        RecordingServer server = Rude(rig);
        RecordingClient client = Make(rig, server.EndPoint!, Quick());
        RecordingSession first = rig.Connect(client);
        first.Send("x"u8);
        client.Until("reconnected 1");
        RecordingSession second = client.Attempt(1);
        Assert.NotSame(first, second);
        Assert.Equal("connecting, connected, peer finished, disconnected PeerClosed", first.Life);
        Assert.Equal("connecting, connected", second.Life);
        Assert.Equal("connected, disconnected PeerClosed, reconnecting 1, connected, reconnected 1", client.Story);
        Assert.Same(second, client.Session);
        Assert.False(client.IsReconnecting);
        second.Send("x"u8);
        rig.Until(() => client.Made.Count == 3 && client.Made[2].Saw("connected"), "the third connection");
    });

    [Fact]
    public void A_client_reconnects_until_a_server_listens() => Run(rig =>
    {
        EndPoint address = Deserted(rig);
        RecordingClient client = Make(rig, address, Quick());
        Task<Session> connecting = client.ConnectAsync().AsTask();
        client.Until("reconnecting 3");
        Assert.False(connecting.IsCompleted);
        Assert.True(client.IsReconnecting);
        RecordingServer server = rig.Serve(null, new ServerOptions { Engine = rig.Engine, EndPoint = address });
        rig.Until(() => connecting.IsCompleted, "the connect");
        Assert.Same(client.Session, connecting.GetAwaiter().GetResult());
        Assert.All(client.Made.SkipLast(1), static s => Assert.Equal("connecting, connect failed Refused", s.Life));
        Assert.Equal("connecting, connected", client.Made[^1].Life);
        server.Connected();
        Assert.StartsWith("reconnecting 1, reconnecting 2, reconnecting 3, ", client.Story, StringComparison.Ordinal);
        Assert.EndsWith($"connected, reconnected {client.Made.Count - 1}", client.Story, StringComparison.Ordinal);
    });

    [Fact]
    public void After_the_last_attempt_the_connect_fails_with_the_last_reason() => Run(rig =>
    {
        RecordingClient client = Make(rig, rig.DeadAddress(), Quick(attempts: 3));
        NetworkException e = Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync()));
        Assert.Equal(ErrorCategory.Refused, e.Error.Category);
        Assert.Contains("Gave up after 3 more attempts.", e.Message, StringComparison.Ordinal);
        Assert.Equal("reconnecting 1, reconnecting 2, reconnecting 3, gave up Refused", client.Story);
        Assert.Equal(4, client.Made.Count);
        Assert.False(client.IsReconnecting);
        // And can connect again.
        Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync()));
        Assert.Equal(8, client.Made.Count);
    });

    [Fact]
    public void Without_RetryFirstConnect_the_first_connect_fails_at_once() => Run(rig =>
    {
        RecordingServer server = Rude(rig);
        RecordingClient client = Make(rig, rig.DeadAddress(), Quick(retryFirst: false));
        Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync()));
        Assert.Equal("", client.Story);
        RecordingClient other = Make(rig, server.EndPoint!, Quick(retryFirst: false));
        rig.Connect(other).Send("x"u8);
        other.Until("reconnected 1");
    });

    [Fact]
    public void An_end_that_this_side_asked_for_is_final() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        foreach (Action<Session> end in (Action<Session>[])[static s => s.Close(), static s => s.Abort()])
        {
            RecordingClient client = Make(rig, server.EndPoint!, Quick());
            RecordingSession session = rig.Connect(client);
            end(session);
            CloseCause cause = session.End();
            client.Until($"gave up {cause}");
            Assert.Equal($"connected, disconnected {cause}, gave up {cause}", client.Story);
            Assert.Single(client.Made);
        }
    });

    [Fact]
    public void The_condition_decides_about_every_end() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        List<CloseCause> asked = [];
        RecordingClient client = Make(rig, server.EndPoint!, Quick(stopWhen: reason =>
        {
            asked.Add(reason.Cause);
            return asked.Count == 3;
        }));
        rig.Connect(client).Close();
        client.Until("reconnected 1");
        client.Made[1].Abort();
        rig.Until(() => client.Made.Count == 3 && client.Made[2].Saw("connected"), "the third connection");
        rig.Await(client.Made[2].IsConnected ? End(client.Made[2]) : default);
        client.Until("gave up LocalClose");
        Assert.Equal([CloseCause.LocalClose, CloseCause.LocalAbort, CloseCause.LocalClose], asked);

        static ValueTask End(RecordingSession session)
        {
            session.Close();
            return default;
        }
    });

    [Fact]
    public void A_client_may_decide_which_ends_are_final_and_a_condition_decides_first() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        RecordingClient client = Make(rig, server.EndPoint!, Quick());
        List<CloseCause> asked = [];
        client.JudgesEnd = reason =>
        {
            asked.Add(reason.Cause);
            return asked.Count == 2;
        };
        rig.Connect(client);
        client.Made[0].Close();
        rig.Until(() => client.Made.Count > 1 && client.Made[1].Saw("connected"),
            "a connection after one that this side has closed");
        client.Made[1].Close();
        client.Until("gave up LocalClose");
        Assert.Equal([CloseCause.LocalClose, CloseCause.LocalClose], asked);

        RecordingClient other = Make(rig, server.EndPoint!, Quick(stopWhen: static _ => true));
        other.JudgesEnd = static _ => false;
        rig.Connect(other);
        other.Made[0].Close();
        other.Until("gave up LocalClose");
    });

    [Fact]
    public void A_condition_that_throws_is_reported_and_ends_the_reconnecting() => Run(rig =>
    {
        rig.Expect("StopWhen of a reconnect policy");
        RecordingClient client = Make(rig, rig.DeadAddress(),
            Quick(stopWhen: static _ => throw new InvalidDataException("thrown by the test")));
        Assert.Equal(ErrorCategory.Refused,
            Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync())).Error.Category);
        Assert.Equal("gave up Refused", client.Story);
        Assert.Contains(rig.Notices, static n => n.Message.Contains("thrown by the test", StringComparison.Ordinal));
    });

    [Fact]
    public void Events_of_the_client_may_throw() => Run(rig =>
    {
        rig.Expect("an event of the client");
        RecordingServer server = Rude(rig);
        RecordingClient client = Make(rig, server.EndPoint!, Quick());
        client.OnEvent = static _ => throw new InvalidDataException("thrown by the test");
        for (int i = 0; i < 3; i++)
        {
            if (i == 0) rig.Connect(client);
            rig.Until(() => client.Made.Count > i && client.Made[i].Saw("connected"), "a connection");
            client.Made[i].Send("x"u8);
        }
    });

    [Fact]
    public void A_factory_that_throws_ends_it() => Run(rig =>
    {
        rig.Expect("the factory of a client");
        RecordingServer server = Rude(rig);
        int made = 0;
        RecordingClient client = Make(rig, server.EndPoint!, Quick(), _ =>
        {
            if (++made == 2) throw new InvalidDataException("thrown by the test");
        });
        rig.Connect(client).Send("x"u8);
        client.Until("gave up UserException");
        Assert.Contains(rig.Notices, static n => n.Message.Contains("thrown by the test", StringComparison.Ordinal));
        rig.Connect(client);
    });

    // ------------------------------------------------------------------ ended from outside

    [Fact]
    public void Disconnect_ends_the_wait_at_once_and_nothing_follows() => Run(rig =>
    {
        RecordingServer server = Rude(rig);
        RecordingClient client = Make(rig, server.EndPoint!, Patient);
        rig.Connect(client).Send("x"u8);
        client.Until("reconnecting 1");
        Assert.True(client.IsReconnecting);
        rig.Await(client.DisconnectAsync());
        Assert.False(client.IsReconnecting);
        rig.Settle();
        Assert.Equal("connected, disconnected PeerClosed, reconnecting 1", client.Story);
        rig.Until(() => rig.Engine.Loops.All(static l => l.Timers.Count == 0), "the timer to go");
        rig.Connect(client);
        Assert.Equal(2, client.Made.Count);
    });

    [Fact]
    public void Disconnect_while_it_waits_fails_the_connect_that_began_it() => Run(rig =>
    {
        RecordingClient client = Make(rig, rig.DeadAddress(), Patient);
        ValueTask<Session> connecting = client.ConnectAsync();
        client.Until("reconnecting 1");
        rig.Settle();
        Assert.Throws<InvalidOperationException>(() => rig.Await(client.ConnectAsync()));
        rig.Await(client.DisconnectAsync());
        Assert.Contains("closed by this side", Assert.Throws<NetworkException>(() => rig.Await(connecting)).Message,
            StringComparison.Ordinal);
    });

    [Fact]
    public void Disconnect_inside_each_event_ends_it() => Run(rig =>
    {
        foreach (string at in (string[])["disconnected PeerClosed", "reconnecting 1", "reconnected 1"])
        {
            RecordingServer server = Rude(rig);
            RecordingClient client = Make(rig, server.EndPoint!, Quick());
            client.OnEvent = text =>
            {
                if (text == at) _ = client.DisconnectAsync().AsTask();
            };
            rig.Connect(client).Send("x"u8);
            client.Until(at);
            rig.Until(() => client.Made.All(static s => s.IsOver) && client.Session is null, "the end");
            rig.Pass(TimeSpan.FromMilliseconds(30));
            Assert.Equal(at == "reconnected 1" ? 2 : 1, client.Made.Count);
            Assert.DoesNotContain("gave up", client.Story, StringComparison.Ordinal);
        }
    });

    [Fact]
    public void Dispose_ends_it_at_any_moment() => Run(rig =>
    {
        RecordingServer server = Rude(rig);
        for (int i = 0; i < 10; i++)
        {
            RecordingClient client = Make(rig, server.EndPoint!, Quick(),
                static s => s.AtConnected = static x => x.Send("x"u8));
            rig.Connect(client);
            rig.Elsewhere(() => _ = client.DisposeAsync().AsTask());
            rig.Join();
            rig.Await(client.DisposeAsync());
            rig.Until(() => client.Made.All(static s => s.IsOver) && client.Session is null, "the end");
            int made = client.Made.Count;
            rig.Pass(TimeSpan.FromMilliseconds(15));
            Assert.Equal(made, client.Made.Count);
            Assert.Throws<ObjectDisposedException>(() => rig.Await(client.ConnectAsync()));
        }
    });

    [Fact]
    public void Cancelling_the_connect_ends_the_wait() => Run(rig =>
    {
        RecordingClient client = Make(rig, rig.DeadAddress(), Patient);
        using CancellationTokenSource cancellation = new();
        ValueTask<Session> connecting = client.ConnectAsync(cancellation.Token);
        client.Until("reconnecting 1");
        cancellation.Cancel();
        Assert.Equal(cancellation.Token,
            Assert.ThrowsAny<OperationCanceledException>(() => rig.Await(connecting)).CancellationToken);
        rig.Until(() => rig.Engine.Loops.All(static l => l.Timers.Count == 0), "the timer to go");
        Assert.False(client.IsReconnecting);
        Assert.Equal("reconnecting 1", client.Story);
    });

    [Fact]
    public void A_token_that_is_cancelled_after_the_connect_changes_nothing() => Run(rig =>
    {
        RecordingServer server = Rude(rig);
        RecordingClient client = Make(rig, server.EndPoint!, Quick());
        using CancellationTokenSource cancellation = new();
        RecordingSession session = (RecordingSession)rig.Await(client.ConnectAsync(cancellation.Token));
        cancellation.Cancel();
        session.Send("x"u8);
        client.Until("reconnected 1");
    });

    [Fact]
    public void A_connect_by_hand_does_not_wait_for_the_policy() => Run(rig =>
    {
        RecordingServer server = Rude(rig);
        RecordingClient client = Make(rig, server.EndPoint!, Patient);
        rig.Connect(client).Send("x"u8);
        client.Until("reconnecting 1");
        rig.Connect(client);
        Assert.False(client.IsReconnecting);
        Assert.Equal("connected, disconnected PeerClosed, reconnecting 1, connected", client.Story);
        rig.Until(() => rig.Engine.Loops.All(static l => l.Timers.Count == 0), "the timer of the policy to go");
        // The policy applies to the new connection, and starts again.
        client.Made[1].Send("x"u8);
        rig.Until(() => client.Events.Count(static e => e == "reconnecting 1") == 2, "the policy to start again");
    });

    [Fact]
    public void A_connect_inside_OnDisconnected_takes_over() => Run(rig =>
    {
        RecordingServer server = Rude(rig);
        RecordingClient? client = null;
        client = Make(rig, server.EndPoint!, Patient, s => s.AtDisconnected = (_, _) =>
        {
            if (client!.Made.Count == 1) _ = client.ConnectAsync().AsTask();
        });
        rig.Connect(client).Send("x"u8);
        rig.Until(() => client.Made.Count == 2 && client.Made[1].Saw("connected"), "the connection by hand");
        Assert.DoesNotContain("reconnecting", client.Story, StringComparison.Ordinal);
    });

    [Fact]
    public void The_end_of_the_engine_ends_the_wait_and_fails_the_connect() => Run(rig =>
    {
        RecordingClient client = Make(rig, rig.DeadAddress(), Patient);
        ValueTask<Session> connecting = client.ConnectAsync();
        client.Until("reconnecting 1");
        rig.Settle();
        rig.Await(rig.Engine.DisposeAsync());
        Assert.Contains("the engine stopped", Assert.Throws<NetworkException>(() => rig.Await(connecting)).Message,
            StringComparison.Ordinal);
        Assert.Equal("reconnecting 1, gave up EngineStopped", client.Story);
    });

    [Fact]
    public void The_end_of_the_engine_is_final_for_a_connection_too() => Run(rig =>
    {
        // A peer on the same engine would sometimes end first.
        PeerListener listener = rig.Listen();
        RecordingClient client = Make(rig, listener.EndPoint, Quick(stopWhen: static _ => false));
        rig.Connect(client);
        rig.Await(rig.Engine.DisposeAsync());
        Assert.Equal("connected, disconnected EngineStopped, gave up EngineStopped", client.Story);
    });

    // ------------------------------------------------------------------ by hand

    [Fact]
    public void ReconnectAsync_ends_the_connection_and_makes_a_new_one() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        foreach (ReconnectPolicy? policy in (ReconnectPolicy?[])[null, Quick()])
        {
            RecordingClient client = rig.MakeClient(
                new ClientOptions { Engine = rig.Engine, EndPoint = server.EndPoint, Reconnect = policy });
            RecordingSession first = (RecordingSession)rig.Await(client.ReconnectAsync());
            RecordingSession second = (RecordingSession)rig.Await(client.ReconnectAsync());
            Assert.Equal("connecting, connected, disconnected LocalClose", first.Life);
            Assert.Equal("connecting, connected", second.Life);
            Assert.Equal("connected, disconnected LocalClose, connected", client.Story);
            rig.Await(client.DisposeAsync());
            Assert.Throws<ObjectDisposedException>(() => rig.Await(client.ReconnectAsync()));
        }
    });

    // ------------------------------------------------------------------ without growth

    [Fact]
    public void Thousands_of_reconnects_leave_nothing_open() => Run(
        rig =>
        {
            int rounds = rig.IsVirtual || Depth.IsDeep ? 10_000 : 2_000;
            RecordingServer server = Rude(rig);
            ReconnectPolicy policy = new()
            {
                InitialDelay = TimeSpan.FromMilliseconds(1),
                MaxDelay = TimeSpan.FromMilliseconds(1),
                ResetAfter = TimeSpan.Zero
            };
            // Several, because each waits most of the time, for its delay or for the other end.
            CountingClient[] clients = [.. Enumerable.Range(0, 8).Select(_ => new CountingClient(
                new ClientOptions { Engine = rig.Engine, EndPoint = server.EndPoint, Reconnect = policy }))];
            foreach (CountingClient client in clients) rig.Await(client.ConnectAsync());
            rig.Until(() => clients.Sum(static c => c.Connections) >= 500, "the first 500");
            rig.ForgetSessions();
            server.Forget();
            (int descriptors, long bytes) = (Descriptors(), GC.GetTotalMemory(forceFullCollection: true));
            for (int next = 1_000; next <= rounds; next += 500)
            {
                int count = next;
                rig.Until(() => clients.Sum(static c => c.Connections) >= count, $"{count} connections");
                rig.ForgetSessions();
                server.Forget();
            }

            long grown = GC.GetTotalMemory(forceFullCollection: true) - bytes;
            // Per client one opening connection, and both ends of a closing one. Fewer than before is possible: earlier
            // tests may have closed descriptors meanwhile.
            Assert.InRange(Descriptors() - descriptors, -1000, 3 * clients.Length);
            Assert.InRange(grown, long.MinValue, 1024 * 1024);
            Assert.All(rig.Engine.Loops, l => Assert.InRange(l.ResidentCount, 0, 6 * clients.Length));
            Assert.All(rig.Engine.Loops, l => Assert.InRange(l.Timers.Count, 0, 6 * clients.Length));
            foreach (CountingClient client in clients) rig.Await(client.DisposeAsync());
            Assert.Equal(0, clients.Sum(static c => c.Failures));
        },
        loops: 1);

    private static int Descriptors() =>
        Directory.Exists("/proc/self/fd") ? Directory.EnumerateFileSystemEntries("/proc/self/fd").Count() : 0;

    private sealed class CountingClient(ClientOptions options) : Client(options, static () => new Caller())
    {
        private int _connections;
        private int _failures;

        internal int Connections => Volatile.Read(ref _connections);

        internal int Failures => Volatile.Read(ref _failures);

        protected override void OnConnected(Session session) => Interlocked.Increment(ref _connections);

        protected override void OnGaveUp(CloseReason reason) => Interlocked.Increment(ref _failures);
    }

    private sealed class Caller : Session
    {
        protected override void OnConnected() => Send("x"u8);
    }
}
