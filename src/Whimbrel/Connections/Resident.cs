using System.Net.Sockets;
using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// A handle: an object on a loop that owns one descriptor, such as a listener, connect attempt, connection or datagram
/// socket. All its operations run on its loop's thread. Slot and generation identify it in the engine: a completion
/// with another generation is stale and only releases resources. <see cref="Loop.Detach"/> is the only place that
/// closes.
/// </summary>
internal abstract class Resident
{
    private SocketShare _share;
    private SendInbox? _inbox; // created by the first send of another thread, and kept
    private uint _inboxGeneration = 1; // the inbox accepts bytes of this generation; 0: of none

    protected Resident(Loop loop) => Loop = loop;

    internal Loop Loop { get; }

    /// <summary>Index in the loop's tables while attached, else -1.</summary>
    internal int Slot { get; set; } = -1;

    /// <summary>
    /// Generation of the slot. The engine puts slot and generation into what it passes to the kernel, and compares them
    /// with each completion.
    /// </summary>
    internal uint SlotGeneration { get; set; }

    /// <summary>Generation of this object's uses. Calls of other threads compare it first.</summary>
    internal uint Generation { get; set; } = 1;

    /// <summary>True if close sends a reset instead of a FIN.</summary>
    internal bool ResetOnClose { get; set; }

    /// <summary>
    /// True if a duplicate of its descriptor may exist, so that closing the descriptor may not close the socket.
    /// </summary>
    internal virtual bool MayHaveDuplicate => true;

    /// <summary>True if the path of its Unix address is deleted when its descriptor is closed.</summary>
    internal virtual bool OwnsPath => false;

    /// <summary>
    /// Object created by the user for this handle's socket, until it is shared or passed on.
    /// </summary>
    internal Socket? Made { get; set; }

    /// <summary>True if user code had a Socket object of it.</summary>
    private protected bool WasShared => _share.WasUsed;

    internal bool IsScheduled { get; set; }

    /// <summary>
    /// Generation to notify when the budget has space after it rejected a send; 0 for none. Owned by the mailbox, under
    /// its lock.
    /// </summary>
    internal uint RoomOwedTo { get; set; }

    /// <summary>The socket with which sharing began, until it ends. Loop's thread.</summary>
    private protected RawSocket SharedSocket => _share.Source;

    /// <summary>Starts sharing when the socket exists: from now on user code may get an object of it.</summary>
    internal void BeginSharing(RawSocket socket)
    {
        if (Made is not null) socket = socket with { Made = Made };
        Made = null;
        // tidy: allowed because it runs once for each socket; user code of any thread may get the object
        lock (Loop.SocketGate) _share.Begin(socket);
    }

    /// <summary>Ends sharing, directly before the descriptor is closed.</summary>
    internal void EndSharing()
    {
        Made?.Dispose();
        Made = null;
        Socket? last;
        // tidy: allowed because it runs once for each socket; user code of any thread may get the object
        lock (Loop.SocketGate) last = _share.End();
        last?.Dispose();
    }

    private protected void ForgetShare() => _share.Forget();

    /// <summary>Returns the Socket object over its descriptor; null if it has none. Any thread.</summary>
    internal Socket? ShareSocket()
    {
        // tidy: allowed because user code called it
        lock (Loop.SocketGate) return _share.Get();
    }

    /// <summary>
    /// Returns a duplicate of its descriptor, which the caller owns; negative if it has none. Any thread.
    /// </summary>
    internal int DuplicateDescriptor()
    {
        // tidy: allowed because it runs once for each upgrade of the process
        lock (Loop.SocketGate) return _share.DuplicateDescriptor();
    }

    /// <summary>Called when the attach has ended, with 0 or an error number.</summary>
    internal abstract void CompleteAttach(int error);

    /// <summary>Called when the descriptor is closed, and no completion follows.</summary>
    internal abstract void CompleteClose();

    /// <summary>
    /// Called when the mailbox, which has rejected a cross-thread send of this generation, has space again. Loop's
    /// thread, outside of callbacks.
    /// </summary>
    internal virtual void RoomAgain()
    {
    }

    /// <summary>Carries out work that was recorded while no session could be called. Loop's completion phase.</summary>
    internal abstract void RunScheduled();

    /// <summary>Closes at once, because the loop ends.</summary>
    internal abstract void Abort();

    // ------------------------------------------------------------------ sends of other threads

    /// <summary>Sends of other threads. Any thread.</summary>
    internal SendInbox SendInbox =>
        Volatile.Read(ref _inbox) ?? Interlocked.CompareExchange(ref _inbox, new SendInbox(this), null) ?? _inbox;

    /// <summary>True if other threads have sent something that the loop has not moved yet.</summary>
    internal bool HasInbox => Volatile.Read(ref _inbox) is { Any: true };

    /// <summary>True if the inbox accepts bytes of this generation. Any thread, under the lock of the inbox.</summary>
    internal bool TakesBytesOf(uint generation) => Volatile.Read(ref _inboxGeneration) == generation;

    /// <summary>Accepts bytes of the present generation from now on. Loop's thread.</summary>
    private protected void OpenInbox() => Volatile.Write(ref _inboxGeneration, Generation);

    /// <summary>
    /// Accepts no bytes of other threads any more, and runs the entries that were accepted. Each byte was then either
    /// accepted and counted, or its send returns Closed. Loop's thread.
    /// </summary>
    private protected void CloseInbox()
    {
        Volatile.Write(ref _inboxGeneration, 0u);
        // A thread creates the inbox by an atomic operation, then reads the generation: one of the two sees the other.
        Interlocked.MemoryBarrier();
        if (Volatile.Read(ref _inbox) is { } inbox) Loop.Mailbox.MoveRest(inbox);
    }

    /// <summary>Runs one entry of the inbox, and returns the bytes that it was charged.</summary>
    internal virtual int RunEntry(InboxItem entry) => throw new NotSupportedException();

    // ------------------------------------------------------------------ for the turn of the loop

    /// <summary>Number of bytes accepted and not yet passed to the system. Any thread.</summary>
    internal virtual long BytesPending => 0;

    /// <summary>True if an exception that the loop catches in one of its steps ends it.</summary>
    internal virtual bool EndsByFault => false;

    /// <summary>Starts the send of what is queued. Called for a resident on the loop's dirty list.</summary>
    internal virtual void Flush()
    {
    }

    /// <summary>Ends it after an exception of one of its steps.</summary>
    internal virtual void EndByFault(Exception exception)
    {
    }

    /// <summary>Text of a callback that runs now, for messages; null if unknown. Any thread.</summary>
    internal virtual string? TextOf(string callback) => null;

    /// <summary>Stops reading, because its session has posted more than another loop accepts.</summary>
    internal virtual void HoldFor(ReceiveGate reason)
    {
    }

    /// <summary>Reads again, because that loop has caught up.</summary>
    internal virtual void Release(ReceiveGate reason, uint generation)
    {
    }
}
