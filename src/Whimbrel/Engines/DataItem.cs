using Whimbrel.Connections;

namespace Whimbrel.Engines;

/// <summary>An item of the data lane of a <see cref="Mailbox"/>.</summary>
internal struct DataItem
{
    internal DataKind Kind;

    /// <summary>Generation of the session that joins, leaves or is called.</summary>
    internal uint Generation;

    /// <summary>Position of its bytes in the arena.</summary>
    internal int Chunk;
    internal int Offset;
    internal int Length;

    /// <summary>Null for an action that was posted to the loop.</summary>
    internal IMailboxReceiver? Receiver;

    /// <summary>Connection that joins or leaves; of a posted action its second argument.</summary>
    internal object? Subject;

    /// <summary>Action, operation or shared bytes.</summary>
    internal object? Payload;

    /// <summary>
    /// Argument of an action; of a broadcast the session that does not get it, a predicate or an operation; name of a
    /// datagram's peer.
    /// </summary>
    internal object? Extra;

    /// <summary>First of the lengths of joined messages (docs/design/0013), or of the forms of one.</summary>
    internal int FirstMessage;
    internal int Messages;

    /// <summary>Class of a new member; bytes of each datagram.</summary>
    internal int Value;

    /// <summary>Resident that an exception of this item ends, if it is still in use for the same session.</summary>
    internal readonly Resident? Concerned =>
        (Receiver as Resident ?? (Receiver is null ? null : Subject as Resident)) is { } resident
        && resident.Generation == Generation ? resident : null;
}
