using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Runtime;
using Whimbrel.Bench.Peers;

namespace Whimbrel.Bench.Micro;

/// <summary> Echo on one loop with idle timeouts: a number of armed timers, of which some are restarted each second, as
/// by arriving messages. They are restarted in callbacks, by the loop's own clock, so that no wake-up is added that a
/// server with such timeouts would not have. A second thread allocates, as in a real application, to show the effect of
/// garbage collection pauses on the responses. </summary>
internal static class TimerServer
{
    private static readonly TimeSpan s_timeout = TimeSpan.FromSeconds(60);

    private static LoopTimer[] s_timers = [];
    private static int s_rearmsPerSecond;
    private static int s_next;
    private static long s_lastMs;

    internal static async Task RunAsync(int port, string engineName, int timers, int rearms, int megabytesPerSecond,
        string watch)
    {
        using Signals signals = new();
        if (!Watching.TryStart(watch))
        {
            throw new ArgumentException($"--watch takes metrics or traces, not '{watch}'");
        }

        await using Engine engine =
            new(new EngineOptions { Kind = Enum.Parse<EngineKind>(engineName, ignoreCase: true), Loops = 1 });
        await using Server server =
            new(new ServerOptions { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, port) },
                static () => new Echo());
        await server.StartAsync();
        await engine.GetLoop(0).PostAsync(() => Arm(engine.GetLoop(0), timers, rearms));
        if (megabytesPerSecond > 0)
        {
            new Thread(() => Allocate(megabytesPerSecond)) { IsBackground = true, Name = "allocator" }.Start();
        }

        var collector = $"{(GCSettings.IsServerGC ? "server" : "workstation")}"
            + $"{(GCSettings.LatencyMode == GCLatencyMode.Batch ? "" : " concurrent")}";
        Console.Out.WriteLine(string.Create(CultureInfo.InvariantCulture,
            $"listening on {server.EndPoint} (engine {engine.KindName}, loops 1, {timers} timers, {rearms} started "
            + $"again a second, {megabytesPerSecond} MB allocated a second, {collector} collector)"));
        Console.Out.Flush();
        await Task.Delay(Timeout.Infinite);
    }

    /// <summary>Allocates arrays of 1,000 bytes, each kept until 20,000 newer ones exist: mostly young garbage, and
    /// some that was promoted.</summary>
    private static void Allocate(int megabytesPerSecond)
    {
        const int size = 1000;
        var kept = new byte[20_000][];
        var started = Stopwatch.GetTimestamp();
        for (long made = 0; ;)
        {
            var due = (long)(Stopwatch.GetElapsedTime(started).TotalSeconds * megabytesPerSecond * 1_000_000 / size);
            for (; made < due; made++)
            {
                kept[made % kept.Length] = new byte[size];
            }

            Thread.Sleep(1);
        }
    }

    private static void Arm(Loop loop, int timers, int rearms)
    {
        s_timers = new LoopTimer[timers];
        // Due at different times, as for connections that were opened one by one.
        for (var i = 0; i < timers; i++)
        {
            s_timers[i] = new LoopTimer(loop);
            s_timers[i].Start(s_timeout + TimeSpan.FromMilliseconds(i % 10_000));
        }

        s_rearmsPerSecond = timers == 0 ? 0 : rearms;
        s_lastMs = loop.TimeMs;
    }

    private static void ShowLife(long nowMs)
    {
        var count = (nowMs - s_lastMs) * s_rearmsPerSecond / 1000;
        s_lastMs = nowMs;
        for (; count > 0; count--)
        {
            s_timers[s_next].Start(s_timeout);
            s_next = (s_next + 7919) % s_timers.Length;
        }
    }

    private sealed class Echo : Session
    {
        protected override void OnReceived(ReadOnlySpan<byte> data)
        {
            if (s_rearmsPerSecond > 0 && Loop.TimeMs != s_lastMs)
            {
                ShowLife(Loop.TimeMs);
            }

            Send(data);
        }
    }
}
