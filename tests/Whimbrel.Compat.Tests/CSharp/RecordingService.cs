using CSharpServer;
using Whimbrel.Compat.Tests.Connections;

namespace Whimbrel.Compat.Tests.CSharp;

/// <summary>A service that records its callbacks.</summary>
internal sealed class RecordingService(Log log, int threads = 1) : Service(threads)
{
    protected override void OnThreadInitialize() => log.Add("thread begins");

    protected override void OnThreadCleanup() => log.Add("thread ends");

    protected override void OnStarted() => log.Add($"started {IsStarted}");

    protected override void OnStopped() => log.Add($"stopped {IsStarted}");

    protected override void OnIdle()
    {
        log.Add("idle");
        base.OnIdle();
    }

    protected override void OnError(int error, string category, string message) => log.Add($"error {error} {category}");
}
