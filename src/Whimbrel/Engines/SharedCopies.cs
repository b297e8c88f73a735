using System.Diagnostics.CodeAnalysis;
using System.Runtime.CompilerServices;

namespace Whimbrel.Engines;

/// <summary>
/// Copies of one message to several connections (<see cref="Session.SendToEach"/>): one for each loop, in a block to
/// which the entries of these connections refer. On the stack of the call, which ends with <see cref="End"/>.
/// </summary>
/// <param name="receivers">Number of connections that may get it.</param>
internal struct SharedCopies(int receivers)
{
    /// <summary>Loops of one call. With more of them a loop may get a second copy.</summary>
    internal const int MostParts = 8;

    private const int MostFresh = 64;

    private Parts _parts;
    private int _count;
    private int _last;

    /// <summary>Returns the copy of a loop, which is created on the first call.</summary>
    [UnscopedRef]
    internal ref SharedCopy Of(Mailbox mailbox, ReadOnlySpan<byte> data)
    {
        if (_count > 0 && ReferenceEquals(_parts[_last].Mailbox, mailbox)) return ref _parts[_last];
        for (int i = 0; i < _count; i++)
        {
            if (!ReferenceEquals(_parts[i].Mailbox, mailbox)) continue;
            _last = i;
            return ref _parts[i];
        }

        if (_count == MostParts) End();
        _last = _count++;
        _parts[_last] = mailbox.CopyShared(data, receivers);
        return ref _parts[_last];
    }

    /// <summary>Returns unused references and entries, and wakes the loops.</summary>
    internal void End()
    {
        for (int i = 0; i < _count; i++) _parts[i].Mailbox.EndShared(_parts[i]);
        _count = 0;
        _last = 0;
    }

    /// <summary>Entries to take in advance.</summary>
    internal readonly int Fresh => Math.Min(receivers, MostFresh);

    [InlineArray(MostParts)]
    private struct Parts
    {
        private SharedCopy _first;
    }
}

/// <summary>The copy for one loop.</summary>
internal struct SharedCopy
{
    internal Mailbox Mailbox;
    internal InboxItem Block;

    /// <summary>Offset of the message in the block.</summary>
    internal int Offset;

    /// <summary>References of the call that no entry has taken.</summary>
    internal int References;

    /// <summary>Entries without memory that the call has taken in advance.</summary>
    internal InboxItem? Fresh;
}
