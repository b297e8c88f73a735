#if MEMORY
using Whimbrel.Testing;

namespace Whimbrel.Conformance;

/// <summary>A memory engine that records its events.</summary>
public sealed class RecordingMemoryEngine(int seed, int loops, Action<DiagnosticEvent> onDiagnosticEvent,
    Action<Loop> onLoopStarted, Action<Loop> onLoopStopping, Action<string> record)
    : MemoryEngine(seed, loops, onDiagnosticEvent, onLoopStarted: onLoopStarted, onLoopStopping: onLoopStopping)
{
    protected override void OnStarting() => record("starting");

    protected override void OnStarted() => record("started");

    protected override void OnStopping() => record("stopping");

    protected override void OnStopped() => record("stopped");
}
#endif
