using System.Collections.Concurrent;
using System.Diagnostics;
using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Tests;

/// <summary>Activities of accepted connections, on a real engine. No other test of the process runs
/// meanwhile.</summary>
public sealed class ServerTracesTests : IAsyncLifetime
{
    private static readonly TimeSpan s_deadline = TimeSpan.FromSeconds(30);

    private readonly BlockingCollection<Activity> _ended = [];
    private readonly BlockingCollection<DiagnosticEvent> _notices = [];
    private readonly ConcurrentQueue<Activity?> _currents = new();
    private Engine _engine = null!;
    private Server _server = null!;

    public async ValueTask InitializeAsync()
    {
        _engine = new Engine(new EngineOptions { Loops = 1, OnDiagnosticEvent = _notices.Add });
        _server = new Server(new ServerOptions { Engine = _engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) },
            () => new Echo(_currents));
        await _server.StartAsync();
    }

    public async ValueTask DisposeAsync()
    {
        await _server.DisposeAsync();
        await _engine.DisposeAsync();
        _ended.Dispose();
        _notices.Dispose();
    }

    private sealed class Echo(ConcurrentQueue<Activity?> currents) : Session
    {
        protected override void OnReceived(ReadOnlySpan<byte> data)
        {
            currents.Enqueue(Activity.Current);
            if (data[0] == 'x') Abort();
            else Send(data);
        }
    }

    /// <summary>Waits until the pool has created the activity source.</summary>
    private static async Task<ActivityListener> ListenAsync(Action<Activity> onStopped,
        ActivitySamplingResult wanted = ActivitySamplingResult.AllData, bool throws = false)
    {
        TaskCompletionSource found = new(TaskCreationOptions.RunContinuationsAsynchronously);
        ActivityListener listener = new()
        {
            ShouldListenTo = source =>
            {
                if (source.Name != "Whimbrel.Connections") return false;
                found.TrySetResult();
                return true;
            },
            Sample = (ref ActivityCreationOptions<ActivityContext> _) =>
                throws ? throw new InvalidOperationException("a sampler") : wanted,
            ActivityStopped = onStopped,
        };
        ActivitySource.AddActivityListener(listener);
        await found.Task.WaitAsync(s_deadline, TestContext.Current.CancellationToken);
        Assert.True(SpinWait.SpinUntil(static () => ServerTraces.IsHeard, s_deadline));
        return listener;
    }

    private async Task<Socket> ConnectAsync(string text)
    {
        Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        await socket.ConnectAsync(_server.EndPoint!, TestContext.Current.CancellationToken);
        await SayAsync(socket, text);
        return socket;
    }

    private static async Task SayAsync(Socket socket, string text)
    {
        await socket.SendAsync(System.Text.Encoding.ASCII.GetBytes(text), TestContext.Current.CancellationToken);
        if (text != "x")
            Assert.Equal(1, await socket.ReceiveAsync(new byte[1], TestContext.Current.CancellationToken).AsTask()
                .WaitAsync(s_deadline, TestContext.Current.CancellationToken));
    }

    private Activity Next()
    {
        Assert.True(_ended.TryTake(out Activity? activity, s_deadline));
        return activity;
    }

    [Fact]
    public async Task A_connection_is_one_activity_that_ends_with_its_cause()
    {
        using Socket before = await ConnectAsync("a");
        using ActivityListener listener = await ListenAsync(_ended.Add);
        Socket goes = await ConnectAsync("a");
        IPEndPoint local = (IPEndPoint)goes.LocalEndPoint!;
        goes.Dispose();
        Activity closed = Next();
        Assert.Equal(("connection", ActivityKind.Server, ActivityStatusCode.Unset, default),
            (closed.DisplayName, closed.Kind, closed.Status, closed.ParentSpanId));
        Assert.Equal(("tcp", "ipv4", "127.0.0.1", ((IPEndPoint)_server.EndPoint!).Port),
            (closed.GetTagItem("network.transport"), closed.GetTagItem("network.type"),
                closed.GetTagItem("server.address"), closed.GetTagItem("server.port")));
        Assert.Equal(("127.0.0.1", local.Port),
            (closed.GetTagItem("network.peer.address"), closed.GetTagItem("network.peer.port")));
        Assert.Equal(("PeerClosed", null),
            (closed.GetTagItem("whimbrel.close.cause"), closed.GetTagItem("error.type")));

        using Socket aborted = await ConnectAsync("x");
        Activity failed = Next();
        Assert.Equal(("LocalAbort", "LocalAbort", ActivityStatusCode.Error),
            (failed.GetTagItem("whimbrel.close.cause"), failed.GetTagItem("error.type"), failed.Status));
        Assert.NotEqual(closed.GetTagItem("whimbrel.session.id"), failed.GetTagItem("whimbrel.session.id"));
        Assert.NotEqual(closed.TraceId, failed.TraceId);

        // No listener was enabled when it was accepted.
        before.Dispose();
        using Socket last = await ConnectAsync("a");
        await _server.StopAsync(TimeSpan.Zero);
        Assert.Equal("ServerStopped", Next().GetTagItem("whimbrel.close.cause"));
        Assert.Empty(_ended);
        Assert.All(_currents, Assert.Null);
    }

    [Fact]
    public async Task An_activity_that_no_listener_wants_is_not_created()
    {
        using ActivityListener listener = await ListenAsync(_ended.Add, ActivitySamplingResult.None);
        using Socket one = await ConnectAsync("a");
        await _server.StopAsync(TimeSpan.Zero);
        Assert.Empty(_ended);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_listener_that_throws_ends_nothing_and_is_named(bool atBegin)
    {
        using ActivityListener listener =
            await ListenAsync(static _ => throw new InvalidOperationException("a listener"), throws: atBegin);
        using Socket stays = await ConnectAsync("a");
        (await ConnectAsync("a")).Dispose();

        // The watchdog may have reported the busy machine first.
        DiagnosticEvent notice;
        do Assert.True(_notices.TryTake(out notice, s_deadline));
        while (notice.Kind == DiagnosticEventKind.BlockedLoop);
        Assert.Contains("a listener of the activities", notice.Message, StringComparison.Ordinal);
        await SayAsync(stays, "b");
        using Socket comes = await ConnectAsync("a");
        await _server.StopAsync(TimeSpan.Zero);
        Assert.Equal(0, _server.ReadCounters().Sessions);
    }
}
