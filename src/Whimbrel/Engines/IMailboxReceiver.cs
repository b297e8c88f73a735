using Whimbrel.Connections;

namespace Whimbrel.Engines;

/// <summary>
/// Receiver of items of a mailbox: a connection, the members of a group on one loop, or a datagram socket. Loop's
/// thread.
/// </summary>
internal interface IMailboxReceiver
{
    /// <summary>Runs an item.</summary>
    /// <param name="item">The item.</param>
    /// <param name="bytes">Its bytes. Valid during the call.</param>
    /// <param name="lengths">Lengths of the messages or forms in the bytes. Valid during the call.</param>
    void RunItem(in DataItem item, ReadOnlySpan<byte> bytes, ReadOnlySpan<int> lengths);

    /// <summary>
    /// True if later sends to a resident must not pass the waiting item: a broadcast to a group that it is in, or its
    /// own join.
    /// </summary>
    bool Concerns(in DataItem item, Resident resident) => false;
}
