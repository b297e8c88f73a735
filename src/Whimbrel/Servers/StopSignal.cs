using System.Runtime.InteropServices;

namespace Whimbrel;

/// <summary>Waits for the signals by which a terminal, systemd or a container stops a program.</summary>
public static class StopSignal
{
    /// <summary>Completes at the first SIGINT (Ctrl-C) or SIGTERM, and prevents that this signal ends the process: the
    /// program stops its servers and returns. A second signal ends the process at once, so that a stop that hangs can
    /// be cut short. Signals before the call and after a cancellation have their usual effect. Any thread; several
    /// calls at a time complete together.</summary>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <returns>The signal. On Windows SIGINT is Ctrl-C and SIGTERM the shutdown of the system.</returns>
    /// <exception cref="OperationCanceledException">The token was cancelled.</exception>
    /// <exception cref="PlatformNotSupportedException">The system has no signals (browser, iOS).</exception>
    public static async Task<PosixSignal> WaitAsync(CancellationToken cancellationToken = default)
    {
        TaskCompletionSource<PosixSignal> received = new(TaskCreationOptions.RunContinuationsAsynchronously);
        using PosixSignalRegistration interrupt = PosixSignalRegistration.Create(PosixSignal.SIGINT, Receive);
        using PosixSignalRegistration terminate = PosixSignalRegistration.Create(PosixSignal.SIGTERM, Receive);
        return await received.Task.WaitAsync(cancellationToken).ConfigureAwait(false);

        void Receive(PosixSignalContext context) => context.Cancel = received.TrySetResult(context.Signal);
    }
}
