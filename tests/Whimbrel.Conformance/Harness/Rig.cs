using System.Collections.Concurrent;
using System.Net;
using System.Text;
using Whimbrel.Engines;

namespace Whimbrel.Conformance;

/// <summary> Environment of a test: an engine, raw peers, other threads and waiting. It hides whether time is real or
/// virtual, so that one test runs on every engine. One per run of a test; <see cref="Finish"/> checks that everything
/// was released. </summary>
public abstract class Rig
{
    private readonly List<Server> _servers = [];
    private readonly List<Client> _clients = [];
    private readonly ConcurrentQueue<RecordingSession> _sessions = new();
    private readonly List<Peer> _peers = [];
    private readonly List<TlsPeer> _securePeers = [];
    private readonly List<PeerListener> _listeners = [];
    private readonly ConcurrentQueue<string> _violations = new();
    private readonly ConcurrentQueue<DiagnosticEvent> _notices = new();
    private readonly List<string> _allowed = [];
    private readonly ConcurrentQueue<string> _engineEvents = new();

    protected Rig(bool isUnix, bool isPool)
    {
        IsUnix = isUnix;
        IsPool = isPool;
    }

    public abstract Engine Engine { get; }

    public bool IsUnix { get; }

    /// <summary>Callbacks run on the thread pool (contract 14).</summary>
    public bool IsPool { get; }

    /// <summary>Kind of TLS that connections start with.</summary>
    public TlsKind Tls { get; init; }

    /// <summary>TLS provider of options that name none. Default Portable; Auto leaves it to the library.</summary>
    public TlsProvider Provider { get; init; } = TlsProvider.Portable;

    private TlsOptions ServerTls => Tls == TlsKind.Fake ? FakeTlsProfile.Server : TestCertificates.ServerOptions;

    private TlsOptions ClientTls => Tls == TlsKind.Fake ? FakeTlsProfile.Client : TestCertificates.ClientOptions;

    /// <summary>A copy for the TLS provider of this test, also for options that a session gets later.</summary>
    public TlsOptions WithProvider(TlsOptions tls)
    {
        ArgumentNullException.ThrowIfNull(tls);
        if (Provider == TlsProvider.OpenSsl)
            Assert.SkipUnless(Whimbrel.Tls.OpenSslLibrary.IsUsable, Whimbrel.Tls.OpenSslLibrary.Refusal ?? "");
        TlsOptions copy = (TlsOptions)typeof(object).GetMethod(nameof(MemberwiseClone),
            System.Reflection.BindingFlags.Instance | System.Reflection.BindingFlags.NonPublic)!.Invoke(tls, null)!;
        typeof(TlsOptions).GetProperty(nameof(TlsOptions.Provider))!.SetValue(copy, Provider);
        return copy;
    }

    /// <summary>The options adapted to the transport of this test.</summary>
    public T Scheduled<T>(T options)
        where T : ConnectionOptions
    {
        ArgumentNullException.ThrowIfNull(options);
        if (Tls != TlsKind.None && options is ServerOptions { Tls: null } or ClientOptions { Tls: null })
        {
            options = (T)options.Clone();
            typeof(T).GetProperty(nameof(ServerOptions.Tls))!.SetValue(options,
                options is ServerOptions ? ServerTls : ClientTls);
        }

        if (Provider != TlsProvider.Auto && typeof(T).GetProperty(nameof(ServerOptions.Tls)) is { } property
            && property.GetValue(options) is TlsOptions { Provider: TlsProvider.Auto, Maker: null } tls)
        {
            options = (T)options.Clone();
            property.SetValue(options, WithProvider(tls));
        }

        if (!IsPool) return options;
        T copy = (T)options.Clone();
        typeof(ConnectionOptions).GetProperty(nameof(ConnectionOptions.Scheduling))!.SetValue(copy,
            Scheduling.ThreadPool);
        return copy;
    }

    /// <summary>True if time is virtual and passes only on request.</summary>
    public abstract bool IsVirtual { get; }

    /// <summary>True if a peer can distinguish a reset from a FIN.</summary>
    public virtual bool HasResets => !IsUnix;

    /// <summary>All diagnostic events of the engine and its servers.</summary>
    public IReadOnlyList<DiagnosticEvent> Notices => [.. _notices];

    /// <summary>
    /// The events of the engine and the hooks of its loops, in order: "starting", "started", "loop 0 started", "loop 0
    /// stopping".
    /// </summary>
    public IReadOnlyList<string> EngineEvents => [.. _engineEvents];

    /// <summary>All sessions created for this rig.</summary>
    public IReadOnlyList<RecordingSession> Sessions => [.. _sessions];

    // ------------------------------------------------------------------ real and virtual time

    /// <summary>An address to listen on: port 0, or an unused path.</summary>
    public abstract EndPoint NewAddress();

    /// <summary>Waits until the condition is true. Fails after a deadline that only a broken build reaches, or when
    /// nothing more can happen.</summary>
    public abstract void Until(Func<bool> condition, string what);

    /// <summary>Runs all pending work, before a test asserts that something did not happen.</summary>
    public abstract void Settle();

    /// <summary>Lets time pass.</summary>
    public abstract void Pass(TimeSpan time);

    /// <summary>Makes the wall clock jump. Virtual time only.</summary>
    public virtual void SetWallClock(DateTimeOffset now) =>
        throw new InvalidOperationException("Real clocks are left alone.");

    /// <summary>Runs an action on another thread, concurrently. It must not wait. See <see cref="Join"/>.</summary>
    public abstract void Elsewhere(Action action);

    /// <summary>Waits for everything started with <see cref="Elsewhere"/>, and rethrows its exceptions.</summary>
    public abstract void Join();

    /// <summary>Inside a callback: keeps the loop busy for this time.</summary>
    public abstract void Block(TimeSpan time);

    /// <summary>A raw peer that is connected to a server under test.</summary>
    /// <param name="endPoint">Address of the server.</param>
    /// <param name="receiveBufferBytes">Receive buffer of the peer; 0 lets the kernel grow it to megabytes. Reading
    /// much from a narrow server needs a small one: each window is acknowledged immediately then, otherwise 40 ms
    /// later. Virtual time has its own windows.</param>
    public abstract Peer ConnectPeer(EndPoint endPoint, int receiveBufferBytes = 0);

    /// <summary>A raw listener for clients under test.</summary>
    public abstract PeerListener Listen();

    /// <summary>An address without a listener: a connect is refused.</summary>
    public abstract EndPoint DeadAddress();

    /// <summary>An address where a connect gets no answer, or null if there is none.</summary>
    public abstract EndPoint? SilentAddress();

    protected abstract void Release();

    // ------------------------------------------------------------------ waiting

    public T Await<T>(ValueTask<T> task, string what = "the task to end")
    {
        Until(() => task.IsCompleted, what);
        return task.GetAwaiter().GetResult();
    }

    public void Await(ValueTask task, string what = "the task to end")
    {
        Until(() => task.IsCompleted, what);
        task.GetAwaiter().GetResult();
    }

    /// <summary>Runs an action where the session's callbacks run, outside of any callback, and waits for it.</summary>
    public void OnLoop(Session session, Action action)
    {
        ArgumentNullException.ThrowIfNull(session);
        if (session.Connection?.Pool?.Strand is { } strand) Run(action, a => Post(strand, a));
        else OnLoop(session.Loop, action);

        static bool Post(Connections.Strand strand, Action action)
        {
            strand.PostContinuation(static a => ((Action)a!)(), action);
            return true;
        }
    }

    public void OnLoop(Loop loop, Action action)
    {
        ArgumentNullException.ThrowIfNull(loop);
        Run(action, loop.Post);
    }

    private void Run(Action action, Func<Action, bool> post)
    {
        Exception? thrown = null;
        int done = 0;
        bool posted = post(() =>
        {
            try
            {
                action();
            }
            catch (Exception e)
            {
                thrown = e;
            }

            Volatile.Write(ref done, 1);
        });
        Assert.True(posted, "the loop has ended");
        Until(() => Volatile.Read(ref done) == 1, "the posted action to run");
        if (thrown is not null) System.Runtime.ExceptionServices.ExceptionDispatchInfo.Throw(thrown);
    }

    // ------------------------------------------------------------------ servers and clients under test

    /// <summary>A started server with recording sessions. <paramref name="setUp"/> runs in the factory, for each
    /// session.</summary>
    public RecordingServer Serve(Action<RecordingSession>? setUp = null, ServerOptions? options = null)
    {
        RecordingServer server = MakeServer(setUp, options);
        Await(server.StartAsync(), "the server to start");
        return server;
    }

    public RecordingServer MakeServer(Action<RecordingSession>? setUp = null, ServerOptions? options = null)
    {
        options ??= new ServerOptions { Engine = Engine, EndPoint = NewAddress() };
        RecordingServer server = new(this, options, setUp);
        return Keep(server);
    }

    /// <summary>The rig stops it at the end.</summary>
    public T Keep<T>(T server)
        where T : Server
    {
        lock (_servers) _servers.Add(server);
        return server;
    }

    public RecordingClient MakeClient(EndPoint endPoint, Action<RecordingSession>? setUp = null) =>
        MakeClient(new ClientOptions { Engine = Engine, EndPoint = endPoint }, setUp);

    public RecordingClient MakeClient(ClientOptions options, Action<RecordingSession>? setUp = null)
    {
        RecordingClient client = new(this, options, setUp);
        lock (_clients) _clients.Add(client);
        return client;
    }

    /// <summary>A connected session of a client.</summary>
    public RecordingSession Connect(EndPoint endPoint, Action<RecordingSession>? setUp = null) =>
        Connect(MakeClient(endPoint, setUp));

    public RecordingSession Connect(Client client)
    {
        ArgumentNullException.ThrowIfNull(client);
        return (RecordingSession)Await(client.ConnectAsync(), "the client to connect");
    }

    // ------------------------------------------------------------------ failures

    public void Violation(string what) => _violations.Enqueue(what);

    /// <summary>Diagnostic events that contain this text are expected. All others about exceptions fail the
    /// test.</summary>
    public void Expect(string noticeText)
    {
        lock (_allowed) _allowed.Add(noticeText);
    }

    public void AddNotice(DiagnosticEvent notice) => _notices.Enqueue(notice);

    /// <summary>Checks the ended sessions and forgets them, for tests with very many.</summary>
    public void ForgetSessions()
    {
        for (int i = _sessions.Count; i > 0 && _sessions.TryDequeue(out RecordingSession? session); i--)
        {
            if (session.IsOver) session.CheckLife();
            else _sessions.Enqueue(session);
        }
    }

    protected void AddEngineEvent(string what) => _engineEvents.Enqueue(what);

    protected void LoopStarted(Loop loop)
    {
        ArgumentNullException.ThrowIfNull(loop);
        if (!loop.IsCurrent) Violation($"OnLoopStarted of {loop} came on another thread");
        AddEngineEvent($"loop {loop.Index} started");
    }

    protected void LoopStopping(Loop loop)
    {
        ArgumentNullException.ThrowIfNull(loop);
        if (!loop.IsCurrent) Violation($"OnLoopStopping of {loop} came on another thread");
        AddEngineEvent($"loop {loop.Index} stopping");
    }

    internal void Add(RecordingSession session) => _sessions.Enqueue(session);

    internal Peer Add(Peer peer, bool isAccepted = false) =>
        Tls == TlsKind.None ? Keep(peer) : Secure(peer, isAccepted);

    /// <summary>A TLS peer over this one; its handshake continues while the rig waits.</summary>
    public TlsPeer Secure(Peer peer, bool isAccepted, TlsOptions? options = null, string? host = "chat.test")
    {
        options ??= isAccepted ? ServerTls : ClientTls;
        Whimbrel.Tls.TlsProfile profile = options.Maker?.Invoke(options, isAccepted)
            ?? new Whimbrel.Tls.SslStreamProfile(options, isAccepted);
        TlsPeer secure = new(this, peer, profile, isAccepted ? null : host);
        lock (_peers) _securePeers.Add(secure);
        Keep(secure);
        return secure;
    }

    /// <summary>With TLS the handshake must be answered before the test accepts.</summary>
    protected PeerListener AddListener(PeerListener listener)
    {
        lock (_peers) _listeners.Add(listener);
        return listener;
    }

    private Peer Keep(Peer peer)
    {
        lock (_peers) _peers.Add(peer);
        return peer;
    }

    /// <summary>Continues the handshakes of peers. Returns true if data was moved.</summary>
    protected bool PumpPeers()
    {
        bool moved = false;
        lock (_peers)
        {
            foreach (PeerListener listener in _listeners) moved |= listener.AcceptEarly();
            for (int i = _securePeers.Count - 1; i >= 0; i--)
            {
                moved |= _securePeers[i].Pump();
                if (_securePeers[i].IsClosed) _securePeers.RemoveAt(i);
            }
        }

        return moved;
    }

    /// <summary>Recorded events of the sessions, for the message of a failure.</summary>
    public string Story()
    {
        StringBuilder text = new();
        text.AppendLine(Engine.ToString());
        foreach (RecordingSession session in _sessions.Take(20))
            text.AppendLine($"  {session}: {string.Join(", ", session.Events)}");
        foreach (DiagnosticEvent notice in _notices.Take(20))
            text.AppendLine($"  notice {notice.Kind}: {notice.Message}");
        foreach (string violation in _violations.Take(20)) text.AppendLine($"  VIOLATION {violation}");
        return text.ToString();
    }

    // ------------------------------------------------------------------ the end of a test

    /// <summary>Ends everything and checks that sessions, descriptors and blocks are gone.</summary>
    public void Finish()
    {
        Join();
        ClosePeers();
        // By index, because the last callbacks of a test may still create clients.
        for (int i = 0; Nth(_clients, i) is { } client; i++) Await(client.DisposeAsync(), "the client to end");
        for (int i = 0; Nth(_servers, i) is { } server; i++)
        {
            // A busy machine may need more than the second that a stop without a deadline has.
            Until(() => Await(server.StopAsync(TimeSpan.Zero), "the server to stop").IsComplete, "the server to end");
        }

        for (int i = 0; Nth(_clients, i) is { } client; i++) Await(client.DisposeAsync(), "the client to end");
        Until(() => _sessions.All(static s => !s.IsAlive), "every session to get its last callback");
        Until(() => Engine.Loops.All(static l => l.IsStopped || (l.ResidentCount == 0
            && l.Blocks.Outstanding == 0 && l.StrandBlocks.Outstanding == 0 && l.InboxItems.Outstanding == 0)),
            "all descriptors and blocks to be given back: " + Leftovers());
        Await(Engine.DisposeAsync(), "the engine to end");
        Until(() => Engine.Loops.All(static l => l.ResidentCount == 0 && l.Blocks.Outstanding == 0
            && l.StrandBlocks.Outstanding == 0 && l.InboxItems.Outstanding == 0),
            "nothing to be left after the engine: " + Leftovers());
        foreach (Server server in _servers) Assert.Equal(0, server.SessionCount);
        foreach (RecordingSession session in _sessions) session.CheckLife();
        Release();
        Assert.True(_violations.IsEmpty, string.Join("\n", _violations));
        DiagnosticEvent[] unexpected = [.. _notices.Where(n => n.Kind == DiagnosticEventKind.UserException
            && !_allowed.Exists(a => n.Message.Contains(a, StringComparison.Ordinal)))];
        Assert.True(unexpected.Length == 0, string.Join("\n", unexpected));
    }

    /// <summary>After a failure: ends what it can, without reporting errors.</summary>
    public void GiveUp()
    {
        ClosePeers();
        try
        {
            Await(Engine.DisposeAsync(), "the engine to end");
            Release();
        }
        catch (Exception)
        {
            // The test has failed already, with a more useful message.
        }
    }

    private static T? Nth<T>(List<T> list, int index)
        where T : class
    {
        lock (list) return index < list.Count ? list[index] : null;
    }

    private void ClosePeers()
    {
        lock (_peers)
        {
            foreach (Peer peer in _peers) peer.Close();
            _peers.Clear();
            _securePeers.Clear();
            _listeners.Clear();
        }
    }

    private string Leftovers() =>
        string.Join(", ", Engine.Loops.Select(static l =>
            $"loop {l.Index} has {l.ResidentCount} residents and {l.Blocks.Outstanding}+{l.StrandBlocks.Outstanding} "
            + $"blocks and {l.InboxItems.Outstanding} entries of inboxes"));
}
