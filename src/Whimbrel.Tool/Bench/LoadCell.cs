using Whimbrel.Http;

namespace Whimbrel.Tool.Bench;

/// <summary>
/// One cell: opens the connections, probes that the server answers, warms up, measures, waits for the last answers and
/// closes. A stop ends the measurement early, with what was measured.
/// </summary>
internal sealed class LoadCell
{
    private const int OpeningAtOnce = 64;
    private const int PollMs = 10;
    private const int ProgressMs = 250;
    private static readonly TimeSpan s_head = TimeSpan.FromMilliseconds(20);

    private readonly BenchSettings _settings;
    private readonly LoadTarget _target;
    private readonly IReadOnlyList<int> _threadIds;
    private readonly LoadLoop[] _loads;
    private readonly int _connections;
    private readonly int _rate;
    private LoadTarget.OpenLane[] _lanes = [];

    /// <param name="settings">Settings of the run.</param>
    /// <param name="target">Opens the connections.</param>
    /// <param name="engine">Engine of the driver.</param>
    /// <param name="threadIds">Thread ids of its loops.</param>
    /// <param name="connections">Number of connections.</param>
    /// <param name="rate">Messages a second; 0 for a closed loop.</param>
    internal LoadCell(BenchSettings settings, LoadTarget target, Engine engine, IReadOnlyList<int> threadIds,
        int connections, int rate)
    {
        (_settings, _target, _threadIds, _connections, _rate) = (settings, target, threadIds, connections, rate);
        TimeSpan? lossAfter = settings.Protocol == BenchProtocol.Udp ? settings.Patience : null;
        _loads = [.. Enumerable.Range(0, engine.LoopCount)
            .Select(i => new LoadLoop(engine.GetLoop(i), settings.IsClosed, lossAfter))];
    }

    /// <summary>Runs the cell.</summary>
    /// <param name="progress">Called a few times a second.</param>
    /// <param name="stop">Completes to end the measurement early.</param>
    /// <exception cref="NetworkException">A connection could not be opened.</exception>
    /// <exception cref="BenchException">The server does not answer as the protocol expects.</exception>
    internal async Task<CellResult> RunAsync(Action<CellProgress> progress, CancellationToken stop)
    {
        try
        {
            await OpenAsync(stop);
            await ProbeAsync(stop);
            return await MeasureAsync(progress, stop);
        }
        finally
        {
            await CloseAsync();
        }
    }

    // ------------------------------------------------------------------ before

    private async Task OpenAsync(CancellationToken stop)
    {
        _lanes = new LoadTarget.OpenLane[_connections];
        // The first alone: if it fails, so would the others.
        try
        {
            _lanes[0] = await _target.OpenAsync(0, _loads, stop);
        }
        catch (WebSocketException e)
        {
            throw new BenchException(BenchText.NoEcho(_settings, e.Message));
        }

        ParallelOptions options = new() { MaxDegreeOfParallelism = OpeningAtOnce, CancellationToken = stop };
        await Parallel.ForAsync(1, _connections, options, async (i, cancellation) =>
            _lanes[i] = await _target.OpenAsync(i, _loads, cancellation));
        foreach (IGrouping<LoadLoop, LoadTarget.OpenLane> group in _lanes.GroupBy(static l => l.Lane.Load))
        {
            await group.Key.Loop.PostAsync(() =>
            {
                foreach (LoadTarget.OpenLane open in group) group.Key.Add(open.Lane);
            });
        }
    }

    /// <summary>Sends one message on one connection, so that a server of another kind is noticed before the load.
    /// </summary>
    private async Task ProbeAsync(CancellationToken stop)
    {
        Lane lane = _lanes[0].Lane;
        await lane.Load.Loop.PostAsync(lane.SendProbe);
        string? failure;
        try
        {
            failure = await lane.FirstAnswer.WaitAsync(_settings.Patience, stop);
        }
        catch (TimeoutException)
        {
            string progress = await lane.Load.Loop.PostAsync(() => lane.Progress);
            failure = $"{progress} within {UnitText.RoundTime(_settings.Patience)}";
        }

        if (failure is not null) throw new BenchException(BenchText.NoEcho(_settings, failure));
    }

    // ------------------------------------------------------------------ the load

    private async Task<CellResult> MeasureAsync(Action<CellProgress> progress, CancellationToken stop)
    {
        long begin = Clock.Now() + Clock.Ns(s_head);
        long from = begin + Clock.Ns(_settings.WarmUp), to = from + Clock.Ns(_settings.Duration);
        await BeginAsync(begin, from, to);
        using Pacer pacer = new(_loads, from);
        await WaitUntilAsync(from, begin, from, to, progress, stop);
        CpuSample first = CpuSample.Take(_threadIds, _settings.ServerPid);
        await WaitUntilAsync(to, begin, from, to, progress, stop);
        CpuSample last = CpuSample.Take(_threadIds, _settings.ServerPid);
        bool isInterrupted = Clock.Now() < to;
        if (isInterrupted) to = Math.Max(from + 1, Clock.Now());
        foreach (LoadLoop load in _loads) load.To = to;
        await DrainAsync(stop);
        LoadFigures figures = await EndAsync();
        return ResultOf(figures, first, last, pacer.AwayInWindowNs, (to - from) / (double)Clock.NsInSecond)
            with { IsInterrupted = isInterrupted };
    }

    /// <summary>Starts each loop with its share of the rate, their messages evenly between each other.</summary>
    private async Task BeginAsync(long begin, long from, long to)
    {
        double offset = 0;
        foreach (LoadLoop load in _loads.Where(static l => l.LaneCount > 0))
        {
            double interval = _rate == 0 ? 1 : Clock.NsInSecond / (_rate * ((double)load.LaneCount / _connections));
            Schedule schedule = new(begin + (long)offset, interval);
            offset += _rate == 0 ? 0 : (double)Clock.NsInSecond / _rate;
            await load.Loop.PostAsync(() => load.Begin(schedule, from, to));
        }
    }

    private async Task WaitUntilAsync(long moment, long begin, long from, long to, Action<CellProgress> progress,
        CancellationToken stop)
    {
        while (Clock.Now() is var now && now < moment && !stop.IsCancellationRequested)
        {
            TimeSpan left = TimeSpan.FromMicroseconds((moment - now) / 1000.0);
            TimeSpan most = TimeSpan.FromMilliseconds(ProgressMs);
            try
            {
                await Task.Delay(left < most ? left : most, stop);
            }
            catch (OperationCanceledException)
            {
                return;
            }

            progress(await LookAsync(begin, from, to));
        }
    }

    private async Task<CellProgress> LookAsync(long begin, long from, long to)
    {
        long answered = 0, errors = 0, p50 = 0, p99 = 0, most = 0;
        foreach (LoadLoop load in _loads)
        {
            await load.Loop.PostAsync(() =>
            {
                LoadFigures figures = load.Figures;
                answered += figures.AnsweredInTime;
                errors += figures.Errors.Total + figures.Lost;
                if (figures.Latency.TotalCount == 0) return;
                // Of several loops the slowest, which is enough for a glance.
                p50 = Math.Max(p50, figures.Latency.GetValueAtPercentile(50));
                p99 = Math.Max(p99, figures.Latency.GetValueAtPercentile(99));
                most = Math.Max(most, figures.Latency.GetValueAtPercentile(100));
            });
        }

        long now = Clock.Now();
        double seconds = Math.Max(0, Math.Min(now, to) - from) / (double)Clock.NsInSecond;
        return new CellProgress(_connections, _rate, Math.Clamp((now - begin) / (double)(to - begin), 0, 1), now < from,
            answered, seconds, p50, p99, most, errors);
    }

    // ------------------------------------------------------------------ after

    /// <summary>Waits until everything is answered, for a limited time.</summary>
    private async Task DrainAsync(CancellationToken stop)
    {
        long until = Clock.Now() + Clock.Ns(_settings.Patience);
        while (Clock.Now() < until && !stop.IsCancellationRequested)
        {
            bool isIdle = true;
            foreach (LoadLoop load in _loads) isIdle &= await load.Loop.PostAsync(load.IsIdleNow);
            if (isIdle) return;
            await Task.Delay(PollMs, CancellationToken.None);
        }
    }

    private async Task<LoadFigures> EndAsync()
    {
        LoadFigures all = new();
        foreach (LoadLoop load in _loads)
        {
            await load.Loop.PostAsync(() =>
            {
                load.End();
                all.Add(load.Figures);
            });
        }

        return all;
    }

    private CellResult ResultOf(LoadFigures figures, CpuSample first, CpuSample last, long awayNs, double seconds)
    {
        (double cpu, double queued) = first.BusiestUntil(last);
        DriverFigures driver = new(cpu, queued, figures.Sent > 0 ? figures.Late / (double)figures.Sent : 0,
            awayNs / (double)Clock.NsInSecond / seconds);
        return new CellResult(_connections, _rate, seconds, figures, driver)
        {
            ServerNs = figures.AnsweredInTime > 0 ? first.ServerNsUntil(last) / figures.AnsweredInTime : null,
            IsRefused = driver.Limits.Count > 0 && !_settings.ReportsLimited,
        };
    }

    private async Task CloseAsync()
    {
        await Task.WhenAll(_lanes.Where(static l => l.Connection is not null).Select(static async l =>
        {
            try
            {
                await l.Connection.DisposeAsync();
            }
            catch (NetworkException)
            {
                // Its last callback is overdue; the engine's stop reports that.
            }
        }));
    }
}
