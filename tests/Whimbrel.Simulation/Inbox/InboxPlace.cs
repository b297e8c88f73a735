using Whimbrel.Testing;

namespace Whimbrel.Simulation.Inbox;

/// <summary>One connection of an <see cref="InboxScenario"/>, with what its peer has to read.</summary>
internal sealed class InboxPlace
{
    /// <summary>Messages in the order of their calls. A waiting message has the task of its result.</summary>
    internal List<(byte[] Message, Task<SendResult>? Sending)> Expected { get; } = [];

    internal List<byte> Got { get; } = [];

    internal MemoryPeer? Peer { get; set; }

    /// <summary>The one that has the connection now. Null before the first OnConnected.</summary>
    internal InboxSession? Session { get; set; }

    /// <summary>A join that was called and no leave since.</summary>
    internal bool IsMember { get; set; }

    /// <summary>Closed by a caller: nothing is accepted, and no broadcast reaches it.</summary>
    internal bool IsClosed { get; set; }

    /// <summary>From the upgrade on nothing leaves in the clear; the peer never answers.</summary>
    internal bool IsTls { get; set; }

    /// <summary>The peer gave a command that changes the session, or ends it.</summary>
    internal bool IsChanging { get; set; }

    /// <summary>The peer gives no more commands.</summary>
    internal bool IsDeaf { get; set; }

    /// <summary>The peer has reset the connection: only a beginning of the messages arrives.</summary>
    internal bool IsReset { get; set; }

    /// <summary>A caller has shut down the send direction: the peer reads an end after the last message.</summary>
    internal bool IsShut { get; set; }

    /// <summary>Calls of SentAsync, with the bytes that were accepted before each.</summary>
    internal List<(Task<bool> Sent, long Bytes)> Marks { get; } = [];

    /// <summary>Bytes of messages that were accepted at their call; broadcasts are not counted.</summary>
    internal long Accepted { get; set; }

    /// <summary>Number of connections that have ended, counted by OnDisconnected without hand-overs.</summary>
    internal int Ends { get; set; }

    /// <summary>Reason of the end.</summary>
    internal CloseReason? Reason { get; set; }
}
