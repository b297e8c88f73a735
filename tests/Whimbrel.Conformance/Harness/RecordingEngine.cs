namespace Whimbrel.Conformance;

/// <summary>An engine that records its events.</summary>
public sealed class RecordingEngine(EngineOptions options, Action<string> record) : Engine(options)
{
    /// <summary>Runs inside each event, after it was recorded.</summary>
    public Action<string>? OnEvent { get; set; }

    protected override void OnStarting() => Record("starting");

    protected override void OnStarted() => Record("started");

    protected override void OnStopping() => Record("stopping");

    protected override void OnStopped() => Record("stopped");

    private void Record(string what)
    {
        record(what);
        OnEvent?.Invoke(what);
    }
}
