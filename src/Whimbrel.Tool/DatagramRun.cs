using System.Diagnostics;
using System.Globalization;

namespace Whimbrel.Tool;

/// <summary>Common part of the datagram commands: engine, signals, statistics, totals.</summary>
internal static class DatagramRun
{
    internal delegate Task<int> Body(Engine engine, Task stop, Action<string> tell);

    /// <summary>Runs a command on an engine of its own. Failures become one line on stderr and an exit code.</summary>
    internal static async Task<int> GuardAsync(DatagramSettings settings, int loops, Body body)
    {
        await using NoticePrinter notices = new();
        Task stop = StopSignal.WaitAsync();
        Engine? engine = null;
        try
        {
            engine = new Engine(new EngineOptions
            {
                Kind = settings.Engine,
                Loops = loops,
                BlockedLoopMs = NoticePrinter.BlockedLoopMs,
                OnDiagnosticEvent = notices.Add
            });
            using MeasurementSignals signals = new(engine);
            int code = await body(engine, stop, notices.Tell);
            return await EndAsync(engine) ? code : ExitCode.Failed;
        }
        catch (OperationCanceledException)
        {
            notices.Tell("cancelled");
        }
        catch (Exception e) when (e is NetworkException or ArgumentException or PlatformNotSupportedException)
        {
            notices.Tell($"whimbrel: {e.Message}");
        }

        if (engine is not null) await EndAsync(engine);
        return ExitCode.Failed;
    }

    /// <summary>Returns false if it has not ended in time because a callback does not return; the message names
    /// it.</summary>
    internal static async Task<bool> EndAsync(Engine engine)
    {
        try
        {
            await engine.DisposeAsync();
            return true;
        }
        catch (NetworkException e)
        {
            await Console.Error.WriteLineAsync($"whimbrel: {e.Message}");
            return false;
        }
    }

    /// <summary>
    /// Waits for a stop signal, the end of the duration, or one of the other tasks, and then stops the socket.
    /// </summary>
    internal static async Task UntilStopAsync(DatagramSocket socket, DatagramSettings settings, Task stop,
        params Task[] others)
    {
        using CancellationTokenSource ending = new();
        Task stats = settings.Stats ? PrintStatsAsync(socket, ending.Token) : Task.CompletedTask;
        Task time = settings.Duration is { } duration
            ? Task.Delay(duration, ending.Token)
            : Task.Delay(Timeout.Infinite, ending.Token);
        await Task.WhenAny([stop, time, .. others]);
        await ending.CancelAsync();
        await stats;
        await socket.StopAsync();
    }

    internal static void PrintTotals(DatagramSocket socket, string more)
    {
        DatagramCounters c = socket.ReadCounters();
        Console.Out.WriteLine(
            $"total: {c.DatagramsReceived} datagrams in, {c.BytesReceived} bytes in, {c.DatagramsSent} datagrams out, "
            + $"{c.BytesSent} bytes out, {c.Overflowed} dropped by the system, {c.Refused + c.Failed} not sent{more}");
    }

    private static async Task PrintStatsAsync(DatagramSocket socket, CancellationToken ending)
    {
        using PeriodicTimer timer = new(TimeSpan.FromSeconds(1));
        long last = Stopwatch.GetTimestamp();
        DatagramCounters before = socket.ReadCounters();
        try
        {
            while (await timer.WaitForNextTickAsync(ending))
            {
                DatagramCounters now = socket.ReadCounters();
                double seconds = Stopwatch.GetElapsedTime(last).TotalSeconds;
                last = Stopwatch.GetTimestamp();
                await Console.Error.WriteLineAsync(string.Create(
                    CultureInfo.InvariantCulture,
                    $"{(now.DatagramsReceived - before.DatagramsReceived) / seconds:0} datagrams/s "
                    + $"in, {(now.DatagramsSent - before.DatagramsSent) / seconds:0} datagrams/s out, "
                    + $"{(now.BytesReceived - before.BytesReceived) / seconds / 1e6:0.0} MB/s in, "
                    + $"{(now.BytesSent - before.BytesSent) / seconds / 1e6:0.0} MB/s out, {now.Overflowed} dropped by "
                    + $"the system"));
                before = now;
            }
        }
        catch (OperationCanceledException)
        {
            // The socket ends.
        }
    }
}
