using System.Runtime.InteropServices;

namespace Whimbrel.Tool;

/// <summary>The first SIGINT or SIGTERM starts the stop. A second one is not handled, so the system ends the
/// process.</summary>
internal sealed class StopSignals : IDisposable
{
    private readonly TaskCompletionSource _asked = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly PosixSignalRegistration[] _registrations;

    internal StopSignals() => _registrations = [PosixSignalRegistration.Create(PosixSignal.SIGINT, Ask),
        PosixSignalRegistration.Create(PosixSignal.SIGTERM, Ask)];

    internal Task Asked => _asked.Task;

    public void Dispose()
    {
        foreach (PosixSignalRegistration registration in _registrations) registration.Dispose();
    }

    private void Ask(PosixSignalContext context) => context.Cancel = _asked.TrySetResult();
}
