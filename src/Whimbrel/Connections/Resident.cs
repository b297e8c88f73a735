using System.Net.Sockets;

namespace Whimbrel.Connections;

/// <summary>
/// What lives on a loop and owns one descriptor: listener, connector, connection. Everything about it happens on its
/// loop's thread. Slot and generation name it in the engine: a completion that carries another generation is stale and
/// releases resources only. There is one place that closes: <see cref="Loop.Detach"/>.
/// </summary>
internal abstract class Resident
{
    private SocketShare _share;

    protected Resident(Loop loop) => Loop = loop;

    internal Loop Loop { get; }

    /// <summary>Index in the loop's tables while attached, else -1.</summary>
    internal int Slot { get; set; } = -1;

    /// <summary>
    /// Counts the residents of the slot; the engine puts both into what it hands to the kernel, and compares them when
    /// something comes back.
    /// </summary>
    internal uint SlotGeneration { get; set; }

    /// <summary>Counts the tenants of this object. Compared before a call from another thread is believed.</summary>
    internal uint Generation { get; set; } = 1;

    /// <summary>Make close send a reset instead of a FIN.</summary>
    internal bool ResetOnClose { get; set; }

    /// <summary>
    /// Somebody may have a duplicate of its descriptor: closing ours is not the end of what it stands for.
    /// </summary>
    internal virtual bool MayHaveDuplicate => true;

    /// <summary>
    /// The user's own object of the socket that is being made for it, until it is shared or passed on.
    /// </summary>
    internal Socket? Made { get; set; }

    /// <summary>User code had a Socket object of it.</summary>
    private protected bool WasShared => _share.WasUsed;

    internal bool IsScheduled { get; set; }

    /// <summary>
    /// The tenant that is told when the budget has room for what it refused; 0 is none. The mailbox's, under its gate.
    /// </summary>
    internal uint RoomOwedTo { get; set; }

    /// <summary>The socket that sharing began with, until it ends. Loop's thread.</summary>
    private protected RawSocket SharedSocket => _share.Source;

    /// <summary>It has its socket: from now on user code may have an object of it.</summary>
    internal void BeginSharing(RawSocket socket)
    {
        if (Made is not null) socket = socket with { Made = Made };
        Made = null;
        // tidy: allowed because it runs once for each socket; user code of any thread asks for the object
        lock (Loop.SocketGate) _share.Begin(socket);
    }

    /// <summary>The last moment before its descriptor is closed.</summary>
    internal void EndSharing()
    {
        Made?.Dispose();
        Made = null;
        Socket? last;
        // tidy: allowed because it runs once for each socket; user code of any thread asks for the object
        lock (Loop.SocketGate) last = _share.End();
        last?.Dispose();
    }

    private protected void ForgetShare() => _share.Forget();

    /// <summary>The Socket object over its descriptor; null when it has none. Any thread.</summary>
    internal Socket? ShareSocket()
    {
        // tidy: allowed because user code asked
        lock (Loop.SocketGate) return _share.Get();
    }

    /// <summary>The attach that the loop was asked for has ended; 0 or an error number.</summary>
    internal abstract void CompleteAttach(int error);

    /// <summary>The descriptor is closed, and no completion follows.</summary>
    internal abstract void CompleteClose();

    /// <summary>
    /// The mailbox refused a send of another thread to this tenant, and would not now. Loop's thread, outside of
    /// callbacks.
    /// </summary>
    internal virtual void RoomAgain()
    {
    }

    /// <summary>
    /// Moves the entries of its <see cref="Engines.SendInbox"/> up to a stamp, and returns their bytes.
    /// </summary>
    /// <param name="limit">Largest stamp.</param>
    /// <param name="isAhead">Early, perhaps inside a callback.</param>
    /// <param name="most">Number of bytes after which the move stops.</param>
    internal virtual long MoveInbox(long limit, bool isAhead = false, long most = long.MaxValue) => 0;

    /// <summary>Does what was noted while no session could be called. Loop's completion phase.</summary>
    internal abstract void RunScheduled();
}
