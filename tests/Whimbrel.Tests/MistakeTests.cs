using System.Collections.Concurrent;
using System.Net;
using System.Net.Sockets;
using Whimbrel.Diagnostics;
using Whimbrel.Linux;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

// Misuse that was silent or had a misleading message: each message says now what happened and what to do.
public sealed class MistakeTests
{
    private static readonly EndPoint s_here = new MemoryEndPoint("here");
    private readonly List<DiagnosticEvent> _notices = [];

    private MemoryEngine NewEngine() => new(1, onDiagnosticEvent: _notices.Add, faults: MemoryFaults.None);

    private static void Until(Func<bool> condition) =>
        Assert.True(SpinWait.SpinUntil(condition, TimeSpan.FromSeconds(30)));

    private string TextOf(DiagnosticEventKind kind) => Assert.Single(_notices, n => n.Kind == kind).Message;

    [Fact]
    public void A_broadcast_of_a_server_that_has_stopped_is_closed()
    {
        MemoryEngine engine = NewEngine();
        Server server = new(new ServerOptions { Engine = engine, EndPoint = s_here }, static () => new Script());
        Assert.Equal(SendResult.Closed, server.Broadcast("x"));
        engine.Run(server.StartAsync());
        Assert.Equal(SendResult.Queued, server.Broadcast("x"));
        engine.Run(server.StopAsync());
        Assert.Equal(SendResult.Closed, server.Broadcast("x"u8));
        Assert.Equal(SendResult.Closed, server.Broadcast("x"u8, static _ => true));
        engine.Run(server.DisposeAsync());
        Assert.Equal(SendResult.Closed, server.Broadcast("x"));
    }

    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public void A_session_that_takes_nothing_up_to_its_limit_is_named_with_the_limit(Scheduling scheduling)
    {
        MemoryEngine engine = NewEngine();
        Server server = new(
            new ServerOptions
            {
                Engine = engine,
                EndPoint = s_here,
                Limits = new() { UnreadBytes = 1024 },
                Scheduling = scheduling
            },
            static () => new TakesNothing());
        engine.Run(server.StartAsync());
        MemoryPeer peer = engine.Connect(s_here);
        peer.Write(new byte[1024]);
        engine.RunUntil(() => _notices.Count > 0);
        Assert.Matches(@"^TakesNothing \(session \w+\) consumed nothing of 1,024 unread bytes, and "
            + @"Limits\.UnreadBytes is 1,024: its connection was reset\. OnData returns the number",
            TextOf(DiagnosticEventKind.MessageTooLarge));
        Assert.Equal("message-too-large.md", _notices[0].Page);
        Assert.Contains("Limits.UnreadBytes", new CloseReason(CloseCause.UnreadLimit).ToString(),
            StringComparison.Ordinal);
        engine.Run(server.DisposeAsync());
    }

    [Fact]
    public void A_reconnect_policy_that_retries_reports_the_cause_once_a_minute()
    {
        MemoryEngine engine = NewEngine();
        Client client = new(new ClientOptions
        {
            Engine = engine,
            EndPoint = s_here,
            Reconnect = new ReconnectPolicy { RetryFirstConnect = true }
        }, static () => new Script());
        Task<Session> connecting = client.ConnectAsync().AsTask();
        engine.RunFor(TimeSpan.FromSeconds(30));
        Assert.False(connecting.IsCompleted);
        Assert.Matches(
            "^Cannot connect to .*here.*: connection refused.* The reconnect policy tries again \\(attempt 1\\)",
            TextOf(DiagnosticEventKind.System));
        engine.RunUntil(() => _notices.Count == 2);
        Assert.Matches("more since the last notice", _notices[1].Message);
        engine.Run(client.DisposeAsync());
    }

    [Fact]
    public void A_datagram_handler_without_overrides_says_what_was_lost()
    {
        ConcurrentQueue<string> notices = [];
        Engine engine = new(new EngineOptions
        {
            Loops = 1,
            OnDiagnosticEvent = n => { if (n.Page == "datagram-not-sent.md") notices.Enqueue(n.Message); }
        });
        IPEndPoint any = new(IPAddress.Loopback, 0);
        DatagramSocket socket = new(new DatagramOptions { Engine = engine, EndPoint = any, ReceiveLimitBytes = 10 },
            static () => new Deaf());
        Run(socket.StartAsync());
        for (int i = 0; i < 3; i++) socket.Send("x"u8, new DatagramPeer(any));
        Until(() => socket.ReadCounters().Failed == 3 && !notices.IsEmpty);
        Assert.Matches(@"^A datagram of 1 bytes to 127\.0\.0\.1:0 was not sent: .*port 0.* Override OnSendFailed",
            Assert.Single(notices));
        notices.Clear();
        for (int i = 0; i < 3; i++) socket.Send(new byte[11], new DatagramPeer((IPEndPoint)socket.EndPoint!));
        Until(() => socket.ReadCounters().Truncated == 3 && !notices.IsEmpty);
        Assert.Matches("^A datagram of 11 bytes from .*, and ReceiveLimitBytes is 10: it was dropped",
            Assert.Single(notices));
        notices.Clear();
        EndPoint closed = socket.EndPoint!;
        Run(socket.DisposeAsync());
        DatagramSocket connected = new(new DatagramOptions { Engine = engine, RemoteEndPoint = closed },
            static () => new Deaf());
        Run(connected.StartAsync());
        connected.Send("x"u8);
        Until(() => !notices.IsEmpty);
        Assert.Contains("No socket receives at that port", Assert.Single(notices), StringComparison.Ordinal);
        Run(connected.DisposeAsync());
        Run(engine.DisposeAsync());
    }

    [Fact]
    public void A_datagram_of_an_unconnected_socket_in_pull_style_that_is_not_sent_gives_one_diagnostic_event()
    {
        ConcurrentQueue<string> notices = [];
        Engine engine = new(new EngineOptions
        {
            Loops = 1,
            OnDiagnosticEvent = n => { if (n.Page == "datagram-not-sent.md") notices.Enqueue(n.Message); }
        });
        IPEndPoint any = new(IPAddress.Loopback, 0);
        DatagramSocket socket = new(new DatagramOptions { Engine = engine, EndPoint = any });
        Run(socket.StartAsync());
        byte[] memory = new byte[10];
        Task<ReceivedDatagram> received = socket.ReceiveAsync(memory).AsTask();
        for (int i = 0; i < 3; i++) socket.Send("x"u8, new DatagramPeer(any));
        Until(() => socket.ReadCounters().Failed == 3 && !notices.IsEmpty);
        Assert.Matches(@"^A datagram of 1 bytes to 127\.0\.0\.1:0 was not sent: .*port 0.* A socket with a handler "
            + @"gets it as OnSendFailed\.", Assert.Single(notices));
        // The receive does not fail: other peers may still send.
        socket.Send("good"u8, new DatagramPeer((IPEndPoint)socket.EndPoint!));
        Until(() => received.IsCompletedSuccessfully);
        Assert.Equal("good"u8.ToArray(), memory[..4]);
        Run(socket.DisposeAsync());
        Run(engine.DisposeAsync());
    }

    [Fact]
    public void A_diagnostic_event_is_written_to_standard_error_with_the_exception_if_its_handler_throws()
    {
        TextWriter old = Console.Error;
        StringWriter text = new();
        Console.SetError(TextWriter.Synchronized(text));
        try
        {
            Engine engine = new(new EngineOptions
            {
                Loops = 1,
                OnDiagnosticEvent = static _ => throw new FormatException("a bad handler")
            });
            engine.Report(new DiagnosticEvent(DiagnosticEventKind.System, "what the notice said.",
                "cannot-connect.md"));
            Until(() => text.ToString().Contains("a bad handler", StringComparison.Ordinal));
            Assert.Contains("what the notice said.", text.ToString(), StringComparison.Ordinal);
            Run(engine.DisposeAsync());
        }
        finally
        {
            Console.SetError(old);
        }
    }

    [Fact]
    public void A_memory_engine_that_is_not_run_and_a_callback_that_blocks_it_are_detected()
    {
        MemoryEngine engine = NewEngine();
        Assert.Null(engine.FindStandstill());
        Server server = new(new ServerOptions { Engine = engine, EndPoint = s_here }, static () => new Script());
        ValueTask started = server.StartAsync();
        Assert.Contains("engine.Run(server.StartAsync())", engine.FindStandstill(), StringComparison.Ordinal);
        engine.Run(started);
        Assert.Null(engine.FindStandstill());
        Assert.Null(engine.FindStandstill());
        string? found = null;
        engine.Loops[0].Post(() =>
        {
            engine.FindStandstill();
            found = engine.FindStandstill();
        });
        engine.RunUntilIdle();
        Assert.Contains("await it instead", found, StringComparison.Ordinal);
        engine.Run(server.DisposeAsync());
        TaskCompletionSource never = new();
        Assert.Contains("real time or a real thread",
            Assert.Throws<SimulationStalledException>(() => engine.Run(new ValueTask(never.Task))).Message,
            StringComparison.Ordinal);
    }

    [Fact]
    public void Diagnostic_events_name_the_override_that_threw_and_both_exceptions_of_an_OnError()
    {
        MemoryEngine engine = NewEngine();
        Session[] sessions = [new TakesTooMuch(), new Frames(), new ErrorThrows()];
        int next = 0;
        Server server = new(new ServerOptions { Engine = engine, EndPoint = s_here }, () => sessions[next++]);
        engine.Run(server.StartAsync());
        for (int i = 1; i <= 3; i++)
        {
            engine.Connect(s_here).Write("\0\0\0\u0001x"u8);
            engine.RunUntil(() => _notices.Count == i);
        }

        Assert.StartsWith("OnData of TakesTooMuch", _notices[0].Message, StringComparison.Ordinal);
        Assert.StartsWith("OnFrame of Frames", _notices[1].Message, StringComparison.Ordinal);
        Assert.Matches("^OnError threw FormatException: second\\. It was called because OnReceived of ErrorThrows .* "
            + "threw InvalidDataException: first\\.", _notices[2].Message);
        engine.Run(server.DisposeAsync());
    }

    [Fact]
    public void Each_event_of_a_server_that_throws_has_a_diagnostic_event()
    {
        MemoryEngine engine = NewEngine();
        EventsThrow server = new(new ServerOptions { Engine = engine, EndPoint = s_here });
        engine.Run(server.StartAsync());
        engine.Run(server.StopAsync());
        Assert.Equal(["an event of the server (OnStarted)", "an event of the server (OnStopping)"],
            _notices.Select(static n => n.Message[..n.Message.IndexOf(" threw", StringComparison.Ordinal)]));
    }

    [Fact]
    public void Bind_and_join_errors_say_what_is_in_the_way()
    {
        string folder = Directory.CreateTempSubdirectory().FullName;
        string file = Path.Combine(folder, "file");
        File.WriteAllText(file, "");
        Assert.Contains("a directory is at that path", BindErrorAt(folder).Message, StringComparison.Ordinal);
        Assert.Contains("a file is at that path, which is no socket", BindErrorAt(file).Message,
            StringComparison.Ordinal);
        Directory.Delete(folder, recursive: true);
        Assert.Contains("IPAddress.IPv6Any", Datagrams.DatagramErrors.JoinFailure(
            new MulticastGroup(IPAddress.Parse("ff02::1")), Errno.ENOPROTOOPT).Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Certificates_of_the_other_format_name_the_method_that_reads_them()
    {
        string path = Path.GetTempFileName();
        File.WriteAllText(path, "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n");
        Assert.Contains("FromPemFile", TlsCertificate.FromPfxFile(path).Mistake, StringComparison.Ordinal);
        File.WriteAllBytes(path, [0x30, 0x82, 0, 1]);
        Assert.Contains("FromPfxFile", TlsCertificate.FromPemFile(path, path).Mistake, StringComparison.Ordinal);
        File.Delete(path);
    }

    [Fact]
    public void Calls_at_the_wrong_moment_say_what_to_call_instead()
    {
        MemoryEngine engine = NewEngine();
        Assert.Contains("LoopCount", Assert.Throws<ArgumentOutOfRangeException>(() => engine.GetLoop(1)).Message,
            StringComparison.Ordinal);
        CallClient calls = new(new ClientOptions { Engine = engine, EndPoint = s_here });
        Assert.Contains("ConnectAsync first",
            Assert.Throws<CallException>(() => engine.Run(calls.CallAsync(new byte[1]))).Message,
            StringComparison.Ordinal);
        Assert.Contains("OnConnected",
            Assert.Throws<InvalidOperationException>(() => new Script().After(TimeSpan.Zero)).Message,
            StringComparison.Ordinal);
        Server server = new(new ServerOptions { Engine = engine, EndPoint = s_here }, static () => new Script());
        engine.Run(server.StartAsync());
        Client client = new(new ClientOptions { Engine = engine, EndPoint = s_here }, static () => new Script());
        engine.Run(client.ConnectAsync());
        string message = Assert.Throws<InvalidOperationException>(() => engine.Run(client.ConnectAsync())).Message;
        Assert.Contains("ReconnectAsync", message, StringComparison.Ordinal);
        Assert.Contains("Connector", message, StringComparison.Ordinal);
        Assert.True(server.IsAccepting);
        engine.Run(engine.DisposeAsync());
        Assert.False(server.IsAccepting);
        Assert.Contains("MemoryEngine", Assert.Throws<ArgumentException>(
            () => new ClientOptions { Address = "memory://here" }.Validate(Engine.Default)).Message,
            StringComparison.Ordinal);
        Assert.Contains("awaits all its reads and writes", Streams.PipeSession.Disposed().Message,
            StringComparison.Ordinal);
    }

    [Fact]
    public void A_failed_handshake_leads_to_the_page_about_handshakes()
    {
        CloseReason reason = new(CloseCause.TlsHandshake, 0, new TlsException(TlsFailure.NotTls, "not TLS"));
        Assert.EndsWith("whimbrel explain tls-handshake.", PendingConnect.Failure([s_here], reason).Message,
            StringComparison.Ordinal);
        Assert.EndsWith("whimbrel explain cannot-connect.",
            PendingConnect.Failure([s_here], new CloseReason(CloseCause.Refused)).Message, StringComparison.Ordinal);
    }

    private static NetworkError BindErrorAt(string path)
    {
        UnixDomainSocketEndPoint here = new(path);
        return BindError.Describe(here, Errno.EADDRINUSE, Connections.SocketFactory.NoSocketAt(here));
    }

    private static void Run(ValueTask task) =>
        task.AsTask().Wait(TimeSpan.FromSeconds(30), TestContext.Current.CancellationToken);

    private sealed class TakesNothing : Session
    {
        protected override int OnData(ReadOnlySpan<byte> unread) => 0;
    }

    private sealed class TakesTooMuch : Session
    {
        protected override int OnData(ReadOnlySpan<byte> unread) => unread.Length + 1;
    }

    private sealed class Frames() : FramedSession(FrameFormat.LengthPrefix(4))
    {
        protected override void OnFrame(in Frame frame) => throw new FormatException("a bad frame");
    }

    private sealed class ErrorThrows : Session
    {
        protected override void OnReceived(ReadOnlySpan<byte> data) => throw new InvalidDataException("first");

        protected override void OnError(Exception exception) => throw new FormatException("second");
    }

    private sealed class EventsThrow(ServerOptions options) : Server(options, static () => new Script())
    {
        protected override void OnStarted() => throw new FormatException();

        protected override void OnStopping() => throw new FormatException();
    }

    private sealed class Deaf : DatagramHandler
    {
    }
}
