namespace Whimbrel.Conformance;

/// <summary>Contract 4: an exception in an override is passed to OnError and ends that connection only.</summary>
public abstract class ErrorSuite(Transport transport) : Suite(transport)
{
    public static TheoryData<string, string> Overrides => new()
    {
        { "OnConnecting", "connecting, error InvalidDataException, connect failed UserException" },
        { "OnConnected", "connecting, connected, error InvalidDataException, disconnected UserException" },
        { "OnReceived", "connecting, connected, received 1, error InvalidDataException, disconnected UserException" },
        { "OnData", "connecting, connected, error InvalidDataException, disconnected UserException" },
        { "OnEndOfStream", "connecting, connected, received 1, peer finished, error InvalidDataException, disconnected "
            + "UserException" },
        { "OnTimer",
            "connecting, connected, received 1, timer, error InvalidDataException, disconnected UserException" },
        { "OnDisconnected",
            "connecting, connected, received 1, peer finished, disconnected PeerClosed, error InvalidDataException" },
    };

    [Theory, Contract(4)]
    [MemberData(nameof(Overrides))]
    public void An_exception_in_an_override_goes_to_OnError_and_ends_that_connection_only(string where, string life) =>
        Run(
            rig =>
            {
                InvalidDataException thrown = new("thrown by the test");
                bool isFirst = true;
                RecordingServer server = rig.Serve(s =>
                {
                    // The first session is the bystander.
                    if (isFirst) s.AtReceived = static (x, data) => x.Send(data);
                    else ThrowIn(s, where, thrown);
                    isFirst = false;
                });
                Peer bystander = rig.ConnectPeer(server.EndPoint!);
                bystander.Write("a");
                Assert.Equal("a", bystander.ReadText(1));
                Peer victim = rig.ConnectPeer(server.EndPoint!);
                Try(() => victim.Write("x"));
                if (where is "OnEndOfStream" or "OnDisconnected") Try(victim.ShutdownSend);
                RecordingSession session = server.Session(1);
                session.Until("error");
                session.End();
                rig.Until(() => session.Events.Count == life.Split(", ").Length, "all callbacks");
                Assert.Equal(life, session.Life);
                Assert.Same(thrown, session.Error);
                if (where != "OnDisconnected") Assert.Same(thrown, session.Reason.Exception);
                bystander.Write("b");
                Assert.Equal("b", bystander.ReadText(1));
                rig.Until(() => server.SessionCount == 1, "the place to be free");
            },
            loops: 1);

    [Theory, Contract(4)]
    [InlineData(true)]
    [InlineData(false)]
    public void An_exception_caught_by_a_protocol_is_counted_and_reported_by_name_and_ends_nothing(bool hasOnError) =>
        Run(rig =>
        {
            InvalidDataException thrown = new("thrown by the test");
            Catcher session = new() { HasOnError = hasOnError, Thrown = thrown };
            List<DiagnosticEvent> notices = [];
            Server server = new(rig.Scheduled(new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                OnDiagnosticEvent = notices.Add
            }), () => session);
            rig.Await(server.StartAsync());
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            peer.Write("x");
            Assert.Equal("caught", peer.ReadText(6));
            peer.Write("x");
            Assert.Equal("caught", peer.ReadText(6));
            Assert.Equal(2, server.ReadCounters().UserExceptions);
            Assert.True(session.IsConnected);
            if (hasOnError) Assert.Equal([thrown, thrown], session.Told);
            else Assert.StartsWith("The handler of X of Catcher (session", Assert.Single(notices).Message,
                StringComparison.Ordinal);
            if (hasOnError) Assert.Empty(notices);
            rig.Await(server.StopAsync(TimeSpan.Zero));
        });

    private sealed class Catcher : Session
    {
        internal bool HasOnError { get; init; }

        internal required Exception Thrown { get; init; }

        internal List<Exception> Told { get; } = [];

        protected override void OnReceived(ReadOnlySpan<byte> data)
        {
            ReportException(Thrown, "The handler of X");
            Send("caught"u8);
        }

        protected override void OnError(Exception exception)
        {
            if (HasOnError) Told.Add(exception);
            else base.OnError(exception);
        }
    }

    [Theory, Contract(4)]
    [InlineData("OnConnecting")]
    [InlineData("OnConnected")]
    [InlineData("OnReceived")]
    [InlineData("OnDisconnected")]
    public void OnError_may_throw_as_well(string where) => Run(
        rig =>
        {
            rig.Expect("from OnError");
            bool isFirst = true;
            RecordingServer server = rig.Serve(s =>
            {
                if (isFirst) s.AtReceived = static (x, data) => x.Send(data);
                else
                {
                    ThrowIn(s, where, new InvalidDataException("thrown by the test"));
                    s.AtError = static (_, _) => throw new InvalidOperationException("from OnError");
                }

                isFirst = false;
            });
            Peer bystander = rig.ConnectPeer(server.EndPoint!);
            bystander.Write("a");
            Assert.Equal("a", bystander.ReadText(1));
            Peer victim = rig.ConnectPeer(server.EndPoint!);
            Try(() => victim.Write("x"));
            Try(victim.ShutdownSend);
            server.Session(1).End();
            rig.Until(() => rig.Notices.Any(static n => n.Message.Contains("from OnError", StringComparison.Ordinal)),
                "a notice");
            bystander.Write("b");
            Assert.Equal("b", bystander.ReadText(1));
        },
        loops: 1);

    [Fact, Contract(4)]
    public void An_exception_in_OnConnectFailed_is_reported_and_the_connect_still_fails() => Run(rig =>
    {
        RecordingClient client = rig.MakeClient(rig.DeadAddress(),
            static s => s.AtConnectFailed = static (_, _) => throw new InvalidDataException("thrown by the test"));
        Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync()));
        Assert.Equal("connecting, connect failed Refused, error InvalidDataException", client.Attempt().Life);
        Assert.Null(client.Session);
    });

    [Fact, Contract(4)]
    public void An_exception_in_OnConnecting_of_a_client_fails_the_connect_as_inner_exception() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        RecordingClient client = rig.MakeClient(server.EndPoint!,
            static s => s.AtConnecting = static _ => throw new InvalidDataException("thrown by the test"));
        NetworkException e = Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync()));
        Assert.IsType<InvalidDataException>(e.InnerException);
        Assert.Equal(ErrorCategory.User, e.Error.Category);
        Assert.Equal("connecting, error InvalidDataException, connect failed UserException", client.Attempt().Life);
    });

    [Fact, Contract(4)]
    public void Data_queued_before_the_exception_is_discarded_and_the_peer_is_reset() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtReceived = static (x, _) =>
        {
            x.Send("never sent"u8);
            throw new InvalidDataException("thrown by the test");
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        Assert.Equal(rig.HasResets, peer.EndsInReset());
        Assert.Equal(CloseCause.UserException, server.Session().End());
        Assert.Contains("thrown by the test", server.Session().Reason.ToString(), StringComparison.Ordinal);
        Assert.Equal(0, server.Session().BytesSent);
    });

    [Fact, Contract(4)]
    public void Events_of_the_server_may_throw() => Run(rig =>
    {
        rig.Expect("an event of the server");
        RecordingServer server = rig.Serve();
        server.OnEvent = static text =>
        {
            if (text.StartsWith("connected", StringComparison.Ordinal)
                || text.StartsWith("disconnected", StringComparison.Ordinal))
                throw new InvalidDataException("thrown by the test");
        };
        for (int i = 0; i < 3; i++)
        {
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            peer.Write("x");
            server.Session(i).UntilReceived(1);
            peer.ShutdownSend();
            server.Session(i).End();
        }

        rig.Until(() => server.SessionCount == 0, "the places to be free");
        Assert.Contains(rig.Notices, static n => n.Kind == DiagnosticEventKind.UserException
            && n.Message.Contains("thrown by the test", StringComparison.Ordinal));
    });

    [Fact, Contract(4)]
    public void Posted_actions_and_timers_of_a_loop_may_throw() => Run(
        rig =>
        {
            rig.Expect("thrown by the test");
            RecordingServer server = rig.Serve(static s => s.AtReceived = static (x, data) => x.Send(data));
            Loop loop = rig.Engine.GetLoop(0);
            loop.Post(static () => throw new InvalidDataException("thrown by the test"));
            loop.StartTimer(TimeSpan.Zero, static _ => throw new InvalidDataException("thrown by the test"));
            rig.Until(() => rig.Notices.Count(static n => n.Kind == DiagnosticEventKind.UserException) == 2,
                "two notices");
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            peer.Write("x");
            Assert.Equal("x", peer.ReadText(1));
        },
        loops: 1);

    [Fact, Contract(4)]
    public void A_diagnostic_event_handler_that_throws_has_no_effect_on_sessions() => Run(rig =>
    {
        SessionGroup group = new();
        RecordingServer server = rig.Serve(
            s => s.AtReceived = (x, _) =>
            {
                group.Join(x);
                group.Broadcast(new byte[5000]);
                x.Send("y"u8);
            },
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Limits = new() { SendBytes = 4096 },
                OnDiagnosticEvent = static _ => throw new InvalidDataException("no")
            });
        for (int i = 0; i < 3; i++)
        {
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            peer.Write("x");
            Assert.Equal("y", peer.ReadText(1));
        }
    });

    /// <summary>All places where user code runs on a loop outside of a session's overrides.</summary>
    [Theory, Contract(4)]
    [InlineData("post")]
    [InlineData("timer")]
    [InlineData("continuation")]
    [InlineData("predicate")]
    [InlineData("predicate from elsewhere")]
    [InlineData("OnError")]
    [InlineData("event of the server")]
    [InlineData("factory")]
    [InlineData("Admit")]
    [InlineData("ChooseLoop")]
    [InlineData("OnSocketCreated")]
    [InlineData("OnDiagnosticEvent")]
    [InlineData("cancelled timer")]
    [InlineData("SelectCertificate")]
    [InlineData("Verify")]
    [InlineData("StopWhen")]
    [InlineData("OnGaveUp")]
    [InlineData("datagram handler")]
    public void User_code_on_a_loop_may_throw_even_what_cannot_be_reported(string where) => Run(
        rig =>
        {
            rig.Expect("threw");
            bool throws = false;
            void Throw()
            {
                if (throws) throw new UntellableException();
            }

            RecordingServer server = rig.Serve(
                s =>
                {
                    if (where == "factory") Throw();
                    s.AtReceived = (x, data) =>
                    {
                        if (where == "OnError" && data[0] == 'x') Throw();
                        if (where == "OnDiagnosticEvent" && data[0] == 'x') x.Send(new byte[9000]);
                        x.Send(data);
                    };
                    s.AtError = (_, _) => Throw();
                },
                new ServerOptions
                {
                    Engine = rig.Engine,
                    EndPoint = rig.NewAddress(),
                    Limits = new() { SendBytes = 8192 },
                    Accept = new()
                    {
                        Admit = where == "Admit" ? _ => { Throw(); return true; } : null,
                        ChooseLoop = where == "ChooseLoop" ? a => { Throw(); return rig.Engine.GetLoop(0); } : null,
                    },
                    Socket = new() { OnCreated = where == "OnSocketCreated" && !rig.IsVirtual ? _ => Throw() : null },
                    OnDiagnosticEvent = _ => { if (where == "OnDiagnosticEvent") Throw(); },
                });
            if (where == "event of the server") server.OnEvent = _ => Throw();
            Loop loop = rig.Engine.GetLoop(0);
            Peer bystander = rig.ConnectPeer(server.EndPoint!);
            RecordingSession session = server.Connected();
            bystander.Write("a");
            Assert.Equal("a", bystander.ReadText(1));
            throws = true;
            switch (where)
            {
                case "post":
                    loop.Post(Throw);
                    break;
                case "timer":
                    loop.StartTimer(TimeSpan.Zero, _ => Throw());
                    break;
                case "cancelled timer":
                    loop.StartTimer(TimeSpan.FromHours(1), (_, _) => Throw()).Cancel();
                    break;
                case "continuation":
                    loop.Post(() => loop.PostContinuation(_ => Throw(), null));
                    break;
                case "predicate":
                    rig.OnLoop(loop, () => server.Sessions.Broadcast("never"u8, _ => { Throw(); return true; }));
                    break;
                case "predicate from elsewhere":
                    server.Sessions.Broadcast("never"u8, _ => { Throw(); return true; });
                    break;
                case "SelectCertificate":
                    ServerOptions choosing = new()
                    {
                        Engine = rig.Engine,
                        EndPoint = rig.NewAddress(),
                        Tls = rig.WithProvider(new TlsOptions { SelectCertificate = _ => { Throw(); return null; } })
                    };
                    RecordingServer chooser = rig.Serve(null, choosing);
                    TlsPeer asks = rig.Secure(rig.ConnectPeer(chooser.EndPoint!), isAccepted: false,
                        TestCertificates.ClientOptions, "chat.test");
                    rig.Until(() => chooser.ReadCounters().TlsFailed == 1, "the handshake to fail");
                    asks.Close();
                    break;
                case "Verify":
                    RecordingServer secure = rig.Serve(null, new ServerOptions
                    {
                        Engine = rig.Engine,
                        EndPoint = rig.NewAddress(),
                        Tls = TestCertificates.ServerOptions
                    });
                    TlsOptions doubts = rig.WithProvider(new TlsOptions
                    {
                        HostName = "chat.test",
                        Roots = TestCertificates.Roots,
                        Verify = _ => { Throw(); return true; }
                    });
                    Assert.Throws<NetworkException>(() => rig.Await(rig.MakeClient(
                        new ClientOptions { Engine = rig.Engine, EndPoint = secure.EndPoint, Tls = doubts })
                        .ConnectAsync()));
                    break;
                case "StopWhen" or "OnGaveUp":
                    ReconnectPolicy once = new()
                    {
                        InitialDelay = TimeSpan.FromMilliseconds(1),
                        MaxAttempts = 1,
                        StopWhen = where == "StopWhen" ? _ => { Throw(); return false; } : null
                    };
                    RecordingClient client = rig.MakeClient(
                        new ClientOptions { Engine = rig.Engine, EndPoint = rig.DeadAddress(), Reconnect = once });
                    client.OnEvent = text => { if (text.StartsWith("gave up", StringComparison.Ordinal)) Throw(); };
                    Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync()));
                    client.Until("gave up Refused");
                    break;
                case "datagram handler":
                    DatagramSocket socket =
                        new(new DatagramOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() },
                            () => new BadHandler(Throw));
                    rig.Await(socket.StartAsync());
                    using (RawDatagrams sender = new(rig))
                    {
                        for (int i = 0; i < 2; i++) sender.Send(Bytes("x"), socket.EndPoint!);
                        rig.Until(() => socket.ReadCounters().HandlerErrors >= 2, "the exceptions");
                    }

                    rig.Await(socket.DisposeAsync());
                    break;
                default:
                    Peer victim = rig.ConnectPeer(server.EndPoint!);
                    Try(() => victim.Write("x"));
                    rig.Settle();
                    break;
            }

            rig.Settle();
            bystander.Write("b");
            Assert.Equal("b", bystander.ReadText(1));
            Assert.True(session.IsConnected);
            throws = false;
            Peer next = rig.ConnectPeer(server.EndPoint!);
            next.Write("c");
            Assert.Equal("c", next.ReadText(1));
        },
        loops: 1);

    [Fact, Contract(4)]
    public void An_exception_of_a_step_of_the_loop_ends_its_connection_and_never_the_loop() => Run(
        rig =>
        {
            rig.Expect("a step of");
            RecordingServer server = rig.Serve(static s => s.AtReceived = static (x, data) => x.Send(data));
            Peer bystander = rig.ConnectPeer(server.EndPoint!);
            server.Connected();
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            RecordingSession session = server.Connected(1);
            Loop loop = session.Loop;
            // An entry of an unknown kind, and work of an unknown resident: simulates defects of the library.
            Assert.True(loop.Mailbox.PostInOrder(Whimbrel.Engines.InboxKind.BroadcastGate, session.Connection!,
                session.Generation, new object()));
            Assert.Equal(CloseCause.UserException, session.End());
            Assert.IsType<InvalidCastException>(session.Reason.Exception);
            rig.OnLoop(loop, () => loop.Schedule(new BrokenResident(loop)));
            rig.Until(() => rig.Notices.Count(static n => n.Message.Contains("a step of", StringComparison.Ordinal))
                == 2, "two notices");
            peer.EndsInReset();
            bystander.Write("b");
            Assert.Equal("b", bystander.ReadText(1));
        },
        loops: 1);

    [Fact, Contract(4)]
    public void An_exception_of_a_completion_a_flush_or_a_handshake_never_ends_the_loop() => Run(
        rig =>
        {
            rig.Expect("a step of");
            RecordingServer server = rig.Serve(static s => s.AtReceived = static (x, data) => x.Send(data));
            Peer bystander = rig.ConnectPeer(server.EndPoint!);
            RecordingSession session = server.Connected();
            Loop loop = session.Loop;
            // A completion without a catch, and work for invalid connections: simulates defects of the library.
            ServerOptions options = new() { Engine = rig.Engine, EndPoint = rig.NewAddress() };
            Whimbrel.Connections.Listener? broken = null;
            rig.OnLoop(loop, () =>
            {
                broken = new Whimbrel.Connections.Listener(loop, new BrokenHost(rig.Engine, options), options,
                    options.EndPoint!);
                broken.Start();
            });
            Peer victim = rig.ConnectPeer(rig.Await(broken!.Started));
            Told(1);
            victim.EndsInReset();
            rig.OnLoop(loop, () => loop.AddDirty(null!));
            Told(2);
            rig.OnLoop(loop, () => loop.Handshakes.Add(null!));
            Told(3);
            Whimbrel.Engines.Completion<bool> stopped = new(rig.Engine);
            rig.OnLoop(loop, () => broken.Stop(stopped));
            rig.Await(stopped.Task);
            bystander.Write("b");
            Assert.Equal("b", bystander.ReadText(1));
            Assert.True(session.IsConnected);

            void Told(int times) =>
                rig.Until(() => rig.Engine.UserExceptionCount == times, "a notice, or that it was counted");
        },
        loops: 1);

    private sealed class BrokenHost(Engine engine, ServerOptions options)
        : Whimbrel.Connections.ConnectionHost(engine, options, isAccepting: true)
    {
        internal override object Owner => this;

        internal override void Accepted(Whimbrel.Connections.Listener listener, Whimbrel.Connections.RawSocket socket,
            Whimbrel.Connections.PeerAddress peer, System.Net.EndPoint local)
        {
            listener.Loop.Discard(socket);
            throw new InvalidOperationException("thrown by the test");
        }

        internal override void NoteSession(DiagnosticEvent notice) => throw NoSession();

        internal override void SessionConnecting(Whimbrel.Connections.Connection connection) => throw NoSession();

        internal override void SessionConnected(Session session) => throw NoSession();

        internal override void SessionEnding(Session session) => throw NoSession();

        internal override void SessionEnded(Session session, CloseReason reason, bool wasConnected) =>
            throw NoSession();

        internal override void SessionReplaced(Session old, Session next) => throw NoSession();

        private static InvalidOperationException NoSession() => new("it has no sessions");
    }

    [Fact, Contract(4)]
    public void Repeated_exceptions_of_a_timer_are_reported_once_a_minute_with_their_number() => Run(rig =>
    {
        rig.Expect("a timer");
        Loop loop = rig.Engine.GetLoop(0);
        rig.Engine.Start();
        int fired = 0;
        LoopTimer timer = loop.StartTimer(
            TimeSpan.FromMilliseconds(1),
            _ =>
            {
                fired++;
                throw new InvalidDataException("thrown by the test");
            },
            period: TimeSpan.FromMilliseconds(1));
        rig.Until(() => Volatile.Read(ref fired) >= 20, "the timer to fire");
        Assert.Single(rig.Notices, static n => n.Kind == DiagnosticEventKind.UserException);
        Assert.True(rig.Engine.UserExceptionCount >= 19);
        if (rig.IsVirtual)
        {
            rig.Pass(TimeSpan.FromSeconds(61));
            Assert.EndsWith(" more since the last notice of this.)",
                rig.Notices.Where(static n => n.Kind == DiagnosticEventKind.UserException).ElementAt(1).Message,
                StringComparison.Ordinal);
        }

        timer.Cancel();
    });

    private sealed class BadHandler(Action throws) : DatagramHandler
    {
        protected override void OnReceived(ReadOnlySpan<byte> datagram, in DatagramPeer peer) => throws();

        protected override void OnError(Exception exception) => throws();
    }

    private sealed class BrokenResident(Loop loop) : Whimbrel.Connections.Resident(loop)
    {
        internal override void CompleteAttach(int error)
        {
        }

        internal override void CompleteClose()
        {
        }

        internal override void RunScheduled() => throw new InvalidOperationException("thrown by the test");

        internal override void Abort()
        {
        }
    }

    private sealed class UntellableException : Exception
    {
        public override string Message => throw new InvalidOperationException("even this throws");
    }

    // ------------------------------------------------------------------ without OnError

    [Fact, Contract(4)]
    public void An_exception_of_a_session_without_OnError_is_reported_by_one_diagnostic_event_and_all_are_counted() =>
        Run(rig =>
        {
            rig.Expect("OnReceived of SilentSession");
            Server server = rig.Keep(
                new Server(rig.Scheduled(new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() }),
                    static () => new SilentSession()));
            rig.Await(server.StartAsync());
            for (int i = 0; i < 3; i++)
            {
                Peer peer = rig.ConnectPeer(server.EndPoint!);
                Try(() => peer.Write("x"));
                int expected = i + 1;
                rig.Until(() => server.ReadCounters().UserExceptions == expected && server.SessionCount == 0,
                    "the session to end");
            }

            rig.Until(() => rig.Notices.Any(static n => n.Kind == DiagnosticEventKind.UserException), "the notice");
            DiagnosticEvent notice = Assert.Single(rig.Notices,
                static n => n.Kind == DiagnosticEventKind.UserException);
            Assert.Matches(@"^OnReceived of SilentSession \(session [0-9a-f]+\) threw InvalidDataException: not told "
                + @"to anybody\. Its connection was ended; other connections continue\. Override OnError to handle it "
                + @"yourself\.$", notice.Message);
            Assert.Contains(nameof(SilentSession), Assert.IsType<InvalidDataException>(notice.Exception).StackTrace,
                StringComparison.Ordinal);
            Assert.Equal("user-exception.md", notice.Page);
            Assert.True(rig.Engine.UserExceptionCount >= 3);
            if (!rig.IsVirtual) return;
            rig.Pass(TimeSpan.FromSeconds(61));
            Peer later = rig.ConnectPeer(server.EndPoint!);
            Try(() => later.Write("x"));
            rig.Until(() => rig.Notices.Count(static n => n.Kind == DiagnosticEventKind.UserException) == 2,
                "the next notice");
            Assert.EndsWith("(2 more since the last notice of this.)", rig.Notices[^1].Message,
                StringComparison.Ordinal);
        });

    [Fact, Contract(4)]
    public void An_exception_after_the_await_of_an_async_void_override_is_a_diagnostic_event_and_ends_no_process() =>
        Run(rig =>
        {
            rig.Expect("an async void callback");
            Server server = rig.Keep(
                new Server(rig.Scheduled(new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() }),
                    static () => new AsyncVoidSession()));
            rig.Await(server.StartAsync());
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            rig.Until(() => rig.Notices.Any(static n => n.Exception is InvalidDataException), "the notice");
            Assert.Equal(1, server.SessionCount);
            peer.Write("x");
        });

    private sealed class AsyncVoidSession : Session
    {
        protected override async void OnConnected()
        {
            await Loop.DelayAsync(TimeSpan.FromMilliseconds(2));
            throw new InvalidDataException("late");
        }
    }

    [Fact, Contract(4)]
    public void A_session_with_an_OnError_of_its_own_is_counted_and_gets_no_diagnostic_event() => Run(rig =>
    {
        RecordingServer server =
            rig.Serve(static s => s.AtReceived = static (_, _) => throw new InvalidDataException("thrown by the test"));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        Try(() => peer.Write("x"));
        server.Session().End();
        rig.Until(() => server.SessionCount == 0, "the place to be free");
        Assert.Equal(1, server.ReadCounters().UserExceptions);
        Assert.DoesNotContain(rig.Notices, static n => n.Kind == DiagnosticEventKind.UserException);
    });

    [Theory, Contract(4)]
    [InlineData(true)]
    [InlineData(false)]
    public void A_factory_that_throws_or_returns_null_is_reported_by_one_diagnostic_event_of_a_server_without_OnError(
        bool throws) => Run(rig =>
        {
            rig.Expect("The factory of the server");
            Func<Session> factory =
                throws ? static () => throw new InvalidDataException("no session") : static () => null!;
            Server server = rig.Keep(new Server(
                rig.Scheduled(new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() }), factory));
            rig.Await(server.StartAsync());
            for (int i = 0; i < 3; i++) rig.ConnectPeer(server.EndPoint!).EndsInReset();
            rig.Until(() => server.ReadCounters().UserExceptions == 3, "the count");
            rig.Until(() => rig.Notices.Any(static n => n.Kind == DiagnosticEventKind.UserException), "the notice");
            DiagnosticEvent notice = Assert.Single(rig.Notices,
                static n => n.Kind == DiagnosticEventKind.UserException);
            Assert.StartsWith(
                "The factory of the server threw " + (throws
                    ? "InvalidDataException: no session"
                    : "InvalidOperationException: The factory must give a new session for each connection, and gave "
                        + "null"), notice.Message, StringComparison.Ordinal);
        });

    [Fact]
    public void Exceptions_of_a_datagram_handler_without_OnError_are_reported_by_one_diagnostic_event() => Run(rig =>
    {
        rig.Expect("OnReceived of SilentHandler");
        DatagramSocket socket = new(new DatagramOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() },
            static () => new SilentHandler());
        rig.Await(socket.StartAsync());
        using RawDatagrams peer = new(rig);
        for (int i = 0; i < 3; i++) peer.Send(Bytes("x"), socket.EndPoint!);
        rig.Until(() => socket.ReadCounters().HandlerErrors == 3, "the exceptions");
        rig.Await(socket.DisposeAsync());
        DiagnosticEvent notice = Assert.Single(rig.Notices, static n => n.Kind == DiagnosticEventKind.UserException);
        Assert.StartsWith($"OnReceived of SilentHandler (datagrams at {socket.EndPoint}) threw InvalidDataException: "
            + $"not told to anybody.", notice.Message, StringComparison.Ordinal);
    });

    private sealed class SilentHandler : DatagramHandler
    {
        protected override void OnReceived(ReadOnlySpan<byte> datagram, in DatagramPeer peer) =>
            throw new InvalidDataException("not told to anybody");
    }

    private sealed class SilentSession : Session
    {
        protected override void OnReceived(ReadOnlySpan<byte> data) =>
            throw new InvalidDataException("not told to anybody");
    }

    private static void ThrowIn(RecordingSession session, string where, Exception exception)
    {
        switch (where)
        {
            case "OnConnecting":
                session.AtConnecting = _ => throw exception;
                break;
            case "OnConnected":
                session.AtConnected = _ => throw exception;
                break;
            case "OnReceived":
                session.AtReceived = (_, _) => throw exception;
                break;
            case "OnData":
                session.AtData = (_, _) => throw exception;
                break;
            case "OnEndOfStream":
                session.AtEndOfStream = _ => throw exception;
                break;
            case "OnTimer":
                session.AtReceived = static (x, _) => x.CallStartTimer(TimeSpan.Zero);
                session.AtTimer = (_, _) => throw exception;
                break;
            case "OnDisconnected":
                session.AtDisconnected = (_, _) => throw exception;
                break;
        }
    }

    private static void Try(Action action)
    {
        try
        {
            action();
        }
        catch (IOException)
        {
            // The session has ended already.
        }
    }
}
