using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Conformance;

/// <summary>
/// A TCP echo with callbacks on the pool, where loop, pool and clients share one cpu with many busy threads. An
/// exchange that takes longer than the heartbeat of the process explains fails, with the state of driver, inbox, ring
/// and pool.
/// WHIMBREL_ECHO_SECONDS=n sets the time for each engine.
/// </summary>
[Trait("Runs", "alone")]
public sealed class PoolEchoStressTests
{
    private const int Clients = 12;
    private const int BusyThreads = 24;
    private const int MostInFlight = 8;
    private const int MostBytes = 40_000;

    // A thread that sleeps 10 ms was scheduled so often, and work items of the pool as well, while nothing arrived.
    private const int MostBeats = 300;
    private const int MostPoolBeats = 150;

    private static readonly TimeSpan s_look = TimeSpan.FromSeconds(1);

    private readonly Lock _gate = new();
    private readonly List<Session> _sessions = [];
    private volatile bool _isOver;
    private volatile string? _standstill;
    private long _exchanges;
    private long _slow;
    private long _longestMs;

    private static int? AskedSeconds => int.TryParse(Environment.GetEnvironmentVariable("WHIMBREL_ECHO_SECONDS"),
        CultureInfo.InvariantCulture, out int seconds) ? seconds : null;

    [Theory]
    [InlineData(EngineKind.Epoll)]
    [InlineData(EngineKind.Uring)]
    public async Task Each_exchange_with_callbacks_on_the_pool_ends_while_the_process_runs(EngineKind kind)
    {
        Assert.SkipUnless(Depth.IsDeep || AskedSeconds is not null, "a minute for each engine: ./test --deep");
        Assert.SkipUnless(OperatingSystem.IsLinux(), "epoll and io_uring");
        Transport.Needs(kind);
        int seconds = AskedSeconds ?? 60;
        using OneCpu cpu = new();
        using Heartbeat heartbeat = new();
        await using Engine engine = new(
            new EngineOptions { Kind = kind, Loops = 1, StopTimeout = TimeSpan.FromMinutes(5) });
        Server server = new(
            new ServerOptions
            {
                Engine = engine,
                EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
                Scheduling = Scheduling.ThreadPool,
            },
            Make);
        await server.StartAsync();
        Thread[] busy = [.. Enumerable.Range(0, BusyThreads).Select(_ => Begin(Spin))];
        Thread[] clients =
        [
            .. Enumerable.Range(0, Clients).Select(
                number => Begin(() => Exchange(engine, server, heartbeat, new Random(number)))),
        ];
        Stopwatch watch = Stopwatch.StartNew();
        foreach (Thread client in clients)
        {
            while (!client.Join(s_look)) _isOver |= watch.Elapsed.TotalSeconds > seconds || _standstill is not null;
        }

        _isOver = true;
        foreach (Thread thread in busy) thread.Join();
        TestContext.Current.TestOutputHelper!.WriteLine(
            $"{kind}: {_exchanges:n0} exchanges in {watch.Elapsed.TotalSeconds:0} s, the longest {_longestMs} ms, "
            + $"{_slow} above 1 s; longest gap of the heartbeat {heartbeat.LongestMs} ms, {heartbeat.OfThread} beats, "
            + $"{heartbeat.OfPool} of the pool");
        await server.StopAsync(TimeSpan.Zero);
        if (_standstill is { } standstill) Assert.Fail(standstill);
        Assert.True(_exchanges > 0, "no exchange");
    }

    private static Thread Begin(Action body)
    {
        Thread thread = new(() => body()) { IsBackground = true };
        thread.Start();
        return thread;
    }

    private void Spin()
    {
        long sum = 0;
        while (!_isOver) sum += Stopwatch.GetTimestamp() & 1;
        GC.KeepAlive(sum);
    }

    private EchoSession Make()
    {
        EchoSession session = new();
        lock (_gate) _sessions.Add(session);
        return session;
    }

    private void Exchange(Engine engine, Server server, Heartbeat heartbeat, Random random)
    {
        using Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        try
        {
            socket.Connect(server.EndPoint!);
            byte[] message = new byte[MostBytes];
            byte[] answer = new byte[MostBytes];
            while (!_isOver)
            {
                int length = 1 + random.Next(random.Next(8) == 0 ? MostBytes : 200);
                int count = length > 1_000 ? 1 : 1 + random.Next(MostInFlight);
                random.NextBytes(message.AsSpan(0, length));
                long began = Stopwatch.GetTimestamp();
                for (int i = 0; i < count; i++) socket.Send(message.AsSpan(0, length));
                for (int i = 0; i < count; i++)
                {
                    if (!Receive(engine, socket, heartbeat, answer.AsSpan(0, length))) return;
                    if (message.AsSpan(0, length).SequenceEqual(answer.AsSpan(0, length))) continue;
                    Fail($"{length} bytes came back as others");
                    return;
                }

                Count(count, began);
            }
        }
        catch (SocketException e)
        {
            if (!_isOver) Fail($"a connection failed: {e.Message}");
        }
    }

    private void Count(int count, long began)
    {
        long ms = (long)Stopwatch.GetElapsedTime(began).TotalMilliseconds;
        Interlocked.Add(ref _exchanges, count);
        if (ms > 1_000) Interlocked.Increment(ref _slow);
        lock (_gate) _longestMs = Math.Max(_longestMs, ms);
    }

    private bool Receive(Engine engine, Socket socket, Heartbeat heartbeat, Span<byte> target)
    {
        while (!target.IsEmpty)
        {
            (long beats, long poolBeats) = (heartbeat.OfThread, heartbeat.OfPool);
            while (!socket.Poll(s_look, SelectMode.SelectRead))
            {
                if (_standstill is not null) return false;
                if (heartbeat.OfThread - beats < MostBeats || heartbeat.OfPool - poolBeats < MostPoolBeats) continue;
                Standstill(engine, socket, heartbeat.OfThread - beats, heartbeat.OfPool - poolBeats, target.Length);
                return false;
            }

            int count = socket.Receive(target);
            if (count == 0)
            {
                Fail("a connection ended");
                return false;
            }

            target = target[count..];
        }

        return true;
    }

    private void Standstill(Engine engine, Socket socket, long beats, long poolBeats, int missing)
    {
        IPEndPoint local = (IPEndPoint)socket.LocalEndPoint!;
        StateDump dump = new();
        dump.Add("thread pool", (ThreadPool.ThreadCount, ThreadPool.PendingWorkItemCount,
            ThreadPool.CompletedWorkItemCount));
        lock (_gate)
        {
            Session? session = _sessions.Find(s => s.RemoteEndPoint is IPEndPoint remote && remote.Port == local.Port);
            dump.Add("session", session);
        }

        foreach (Loop loop in engine.Loops) dump.Add("loop", loop);
        string port = $":{local.Port:X4} ";
        string kernel = string.Join('\n',
            File.ReadLines("/proc/net/tcp").Where(l => l.Contains(port, StringComparison.Ordinal)));
        // Does the connection continue after one more byte? The run ends here in any case.
        socket.Send([0]);
        bool continues = socket.Poll(TimeSpan.FromSeconds(20), SelectMode.SelectRead);
        Fail($"{missing} bytes of an answer are missing on port {local.Port} while a sleeping thread ran {beats} times "
            + $"and the pool {poolBeats} times; after one more byte the connection "
            + $"{(continues ? "continues" : "does not continue")}.\n{kernel}\n{dump}");
    }

    private void Fail(string what)
    {
        lock (_gate) _standstill ??= what;
    }

    private sealed class EchoSession : Session
    {
        protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);
    }
}
