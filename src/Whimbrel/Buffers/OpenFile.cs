using System.Diagnostics;
using Microsoft.Win32.SafeHandles;

namespace Whimbrel.Buffers;

/// <summary>
/// An open file with references of the application and loans of queued blocks. Closed when none is left, on any thread.
/// </summary>
internal sealed class OpenFile
{
    private LoanCount _counts = LoanCount.First;

    internal OpenFile(SafeFileHandle handle)
    {
        bool isHeld = false;
        // If other code disposes the handle, the descriptor stays open during a send.
        handle.DangerousAddRef(ref isHeld);
        Handle = handle;
    }

    internal SafeFileHandle Handle { get; }

    /// <summary>The file descriptor; valid during a loan.</summary>
    internal int Descriptor => (int)Handle.DangerousGetHandle();

    internal bool HasReferences => _counts.HasReferences;

    internal bool TryAddReference() => _counts.TryAddReference();

    internal bool TryLend() => _counts.TryLend();

    internal void LendOn() => _counts.LendOn();

    /// <summary>Releases a reference of the application. Returns false if there was none left.</summary>
    internal bool TryRelease()
    {
        if (!_counts.TryRelease(out bool isLast)) return false;
        if (isLast) Close();
        return true;
    }

    internal void EndLoan()
    {
        if (_counts.EndLoan()) Close();
    }

    private void Close()
    {
        Debug.Assert(!Handle.IsInvalid, "a file without a handle");
        Handle.DangerousRelease();
        Handle.Dispose();
    }
}
