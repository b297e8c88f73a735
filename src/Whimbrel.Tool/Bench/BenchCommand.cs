using System.Security.Cryptography;
using Whimbrel.Tool.Linux;

namespace Whimbrel.Tool.Bench;

/// <summary><c>whimbrel bench</c>: measures cell after cell and reports them. The table goes to stdout, progress to
/// stderr.</summary>
internal sealed class BenchCommand
{
    // A table that is higher than the terminal could not be drawn in place.
    private const int ShownCells = 10;

    private readonly BenchSettings _settings;
    private readonly MachineFacts _machine = MachineFacts.Read();
    private readonly LiveLines _live = LiveLines.OnTerminal();
    private readonly List<CellResult> _cells = [];
    private readonly DateTimeOffset _time = DateTimeOffset.UtcNow;
    private readonly int[] _threadIds;
    private string _engine = "";

    private BenchCommand(BenchSettings settings)
    {
        _settings = settings;
        _threadIds = new int[settings.Loops];
    }

    internal static async Task<int> RunAsync(BenchSettings settings)
    {
        Task signal = StopSignal.WaitAsync();
        using CancellationTokenSource stop = new();
        _ = CancelOnSignalAsync();
        BenchCommand command = new(settings);
        string? failure = null;
        try
        {
            // Before the load, so that a path that cannot be written costs no time.
            if (settings.JsonFile is { } file and not "-") await File.OpenWrite(file).DisposeAsync();
            await command.MeasureAsync(stop.Token);
        }
        catch (OperationCanceledException) when (stop.IsCancellationRequested)
        {
            failure = command._cells.Count == 0 ? "cancelled before anything was measured" : "cancelled";
        }
        catch (Exception e) when (e is NetworkException or BenchException or ArgumentException
            or PlatformNotSupportedException or IOException or UnauthorizedAccessException or CryptographicException)
        {
            failure = e.Message;
        }

        command._live.Clear();
        if (failure is not null) await Console.Error.WriteLineAsync($"whimbrel: {failure}");
        await command.ReportAsync();
        return failure is null ? command.Code : ExitCode.Failed;

        async Task CancelOnSignalAsync()
        {
            await signal;
            await stop.CancelAsync();
        }
    }

    private int Code => _cells.Exists(static c => c.IsRefused) ? ExitCode.Refused
        : _cells.TrueForAll(IsClean) ? ExitCode.Done
        : ExitCode.Failed;

    private static bool IsClean(CellResult cell) => !cell.IsInterrupted && cell.Figures.Unanswered == 0
        && cell.Figures.Errors.Total == 0 && cell.Figures.Answered > 0;

    private async Task MeasureAsync(CancellationToken stop)
    {
        await using NoticePrinter notices = new();
        await using Engine engine = new(new EngineOptions
        {
            Kind = _settings.Engine,
            Loops = _settings.Loops,
            Name = "bench",
            BlockedLoopMs = NoticePrinter.BlockedLoopMs,
            OnDiagnosticEvent = notices.Add,
            OnLoopStarted = loop => _threadIds[loop.Index] = NativeThread.Id,
        });
        _engine = engine.KindName;
        await engine.StartAsync();
        LoadTarget target = await LoadTarget.CreateAsync(_settings, stop);
        foreach (int connections in _settings.Connections)
        {
            foreach (int rate in _settings.IsClosed ? [0] : _settings.Rates)
            {
                if (stop.IsCancellationRequested && _cells.Count > 0) return;
                if (!_live.IsShown)
                    await Console.Error.WriteLineAsync(BenchText.Begin(_settings, connections, rate));
                LoadCell cell = new(_settings, target, engine, _threadIds, connections, rate);
                _cells.Add(await cell.RunAsync(Show, stop));
            }
        }
    }

    private void Show(CellProgress progress) =>
        _live.Show([BenchText.Header,
        .. _cells.TakeLast(ShownCells).Select(BenchText.ResultRow), BenchText.ProgressRow(progress)]);

    private async Task ReportAsync()
    {
        if (_cells.Count == 0) return;
        TextWriter output = _settings.JsonFile == "-" ? Console.Error : Console.Out;
        await output.WriteLineAsync(BenchText.Title(_settings, _engine));
        await output.WriteLineAsync(BenchText.WhatIsMeasured(_settings));
        await output.WriteLineAsync(BenchText.Header);
        foreach (CellResult cell in _cells) await output.WriteLineAsync(BenchText.ResultRow(cell));
        foreach (string note in _cells.SelectMany(c => BenchText.Notes(c, _settings, _machine.Cores)))
            await output.WriteLineAsync(Diagnostics.Escaped.Of(note));
        if (_settings.JsonFile is not { } file) return;
        string json = BenchReport.Of(_settings, _machine, _engine, _time, _cells);
        if (file == "-") await Console.Out.WriteAsync(json);
        else await File.WriteAllTextAsync(file, json);
    }
}
