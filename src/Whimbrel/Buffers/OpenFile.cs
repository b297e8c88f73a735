using System.Diagnostics;
using Microsoft.Win32.SafeHandles;

namespace Whimbrel.Buffers;

/// <summary>An open file that users refer to and queued blocks have on loan. Closed when nobody does any more, on any thread.</summary>
internal sealed class OpenFile
{
    private LoanCount _counts = LoanCount.First;

    internal OpenFile(SafeFileHandle handle)
    {
        bool isHeld = false;
        // Somebody else who disposes the handle does not close the descriptor under a send.
        handle.DangerousAddRef(ref isHeld);
        Handle = handle;
    }

    internal SafeFileHandle Handle { get; }

    /// <summary>The system's descriptor; valid for who has a loan.</summary>
    internal int Descriptor => (int)Handle.DangerousGetHandle();

    internal bool HasReferences => _counts.HasReferences;

    internal bool TryAddReference() => _counts.TryAddReference();

    internal bool TryLend() => _counts.TryLend();

    internal void LendOn() => _counts.LendOn();

    /// <summary>A user's reference. False when there was none left.</summary>
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
