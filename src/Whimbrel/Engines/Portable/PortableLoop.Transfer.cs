using System.Net.Sockets;
using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Datagrams;
using Whimbrel.Diagnostics;
using Whimbrel.Linux;

namespace Whimbrel.Engines.Portable;

/// <summary>
/// Bytes in and out. An idle connection waits with a small buffer of its own; when that comes back full, what is behind
/// it is read at once into the loop's one hot buffer, and both are delivered together. Sends are tried at once; only what
/// the socket cannot take now waits for an asynchronous call.
/// </summary>
// Safe: as in PortableLoop.cs; spans over the two buffers never leave the call that made them.
internal sealed unsafe partial class PortableLoop
{
    /// <summary>What an idle connection keeps. Most requests fit; more of it would be paid by every connection.</summary>
    private const int SmallBytes = 2 * 1024;

    private const int ReceiveBytes = 64 * 1024;
    private const int GatherBytes = 64 * 1024;

    /// <summary>Shorter blocks are joined before they are sent: a copy is cheaper than another system call.</summary>
    private const int GatherBelowBytes = 16 * 1024;

    /// <summary>Most that one asynchronous send takes: it reports no progress before its end, and a drain goes by progress.</summary>
    private const int PendingSendBytes = 16 * 1024;

    // ------------------------------------------------------------------ receive

    internal override void StartReceive(Resident resident)
    {
        ref PortableSlot slot = ref _slots[resident.Slot];
        slot.IsWanted = true;
        if (slot.IsReading) return;
        if (resident is Listener listener) StartAccept(listener);
        else if (resident is DatagramResident socket) ReceiveDatagrams(socket);
        else if (slot.HeldError != 0) ReadOn((Connection)resident);
        else ReceiveNext((Connection)resident);
    }

    internal override void StopReceive(Resident resident) => _slots[resident.Slot].IsWanted = false;

    private void ReceiveNext(Connection connection)
    {
        ref PortableSlot slot = ref _slots[connection.Slot];
        PortableOperation operation = slot.Operation!;
        slot.IsReading = true;
        Begin(operation, connection);
        if (!slot.Socket!.ReceiveAsync(operation)) AddReady(operation);
    }

    /// <summary>Notes that the socket has more: read in the next turn, without an asynchronous call.</summary>
    private void ReadOn(Connection connection)
    {
        ref PortableSlot slot = ref _slots[connection.Slot];
        PortableOperation operation = slot.Operation!;
        slot.IsReading = true;
        operation.ReadsOn = true;
        Begin(operation, connection);
        AddReady(operation);
    }

    private void Received(Connection connection, PortableOperation operation)
    {
        int slot = connection.Slot;
        _slots[slot].IsReading = false;
        if (operation.ReadsOn)
        {
            operation.ReadsOn = false;
            if (_slots[slot].IsWanted) ReadHot(connection, 0);
            return;
        }

        if (operation.SocketError != SocketError.Success)
        {
            ReceiveFailed(connection, operation.SocketError);
            return;
        }

        int count = operation.BytesTransferred;
        if (count == 0)
        {
            ReceiveEnded(connection);
            return;
        }

        if (count == SmallBytes && _slots[slot].IsWanted)
        {
            new ReadOnlySpan<byte>(operation.Small).CopyTo(HotBlock(connection));
            ReadHot(connection, SmallBytes);
            return;
        }

        bool isAttached = Hand(connection, new ReadOnlySpan<byte>(operation.Small, 0, count));
        Poison(new Span<byte>(operation.Small, 0, count));
        if (isAttached && _slots[slot].IsWanted) ReceiveNext(connection);
    }

    /// <summary>
    /// Delivers. The connection counts as being read meanwhile: a callback that pauses and then closes starts a receive
    /// to discard what comes, and that must not begin beside the one that follows here. False when it has left the slot.
    /// </summary>
    private bool Hand(Connection connection, ReadOnlySpan<byte> data)
    {
        int slot = connection.Slot;
        uint generation = connection.SlotGeneration;
        _slots[slot].IsReading = true;
        connection.CompleteReceive(data);
        if (!IsAttached(connection, slot, generation)) return false;
        _slots[slot].IsReading = false;
        return true;
    }

    /// <summary>What the connection is read into, from the thread of the loop.</summary>
    private Span<byte> HotBlock(Connection connection) =>
        _slots[connection.Slot].Size.IsLarge && connection.TakesLargeBlocks ? new Span<byte>(_largeBlock.Take(), LargeBlock.Bytes) : new Span<byte>(_buffer, ReceiveBytes);

    /// <summary>Reads behind the <paramref name="held"/> bytes that are in the hot buffer already, and delivers all of it.</summary>
    private void ReadHot(Connection connection, int held)
    {
        int slot = connection.Slot;
        if (_slots[slot].HeldError is not 0 and int error)
        {
            _slots[slot].IsWanted = false;
            connection.CompleteReceiveError(error);
            return;
        }

        Span<byte> block = HotBlock(connection);
        int count = _slots[slot].Socket!.Receive(block[held..], SocketFlags.None, out SocketError outcome);
        bool isEnd = outcome == SocketError.Success && count == 0;
        if (outcome != SocketError.Success) count = 0;
        if (held + count > 0)
        {
            bool isAttached = Hand(connection, block[..(held + count)]);
            Poison(block[..(held + count)]);
            if (!isAttached) return;
            _slots[slot].Size.Report(held + count, connection.TakesLargeBlocks ? ReceiveBytes : int.MaxValue);
        }

        if (isEnd) ReceiveEnded(connection);
        else if (outcome is not (SocketError.Success or SocketError.WouldBlock or SocketError.Interrupted)) ReceiveFailed(connection, outcome);
        else if (!_slots[slot].IsWanted) return;
        else if (held + count == block.Length) ReadOn(connection);
        else ReceiveNext(connection);
    }

    private void ReceiveEnded(Connection connection)
    {
        _slots[connection.Slot].IsWanted = false;
        connection.CompleteReceiveEnd();
    }

    /// <summary>Somebody who is not reading now hears of it when he does: what he has not looked at yet must not go before it.</summary>
    private void ReceiveFailed(Connection connection, SocketError error)
    {
        ref PortableSlot slot = ref _slots[connection.Slot];
        slot.HeldError = ErrorText.ErrnoOf(error);
        if (!slot.IsWanted) return;
        slot.IsWanted = false;
        connection.CompleteReceiveError(slot.HeldError);
    }

    // ------------------------------------------------------------------ send

    internal override void StartSend(Connection connection) => SendQueue(connection);

    /// <summary>Sends from the head of the queue until it is empty or the socket is full.</summary>
    private void SendQueue(Connection connection)
    {
        Socket socket = _slots[connection.Slot].Socket!;
        while (connection.SendHead is { } head && head.Length > 0)
        {
            ReadOnlySpan<byte> data = head.NextInMemory is not null && head.Length < GatherBelowBytes ? Gather(head) : new(head.Memory + head.Start, head.Length);
            Counters.Sends++;
            int sent = socket.Send(data, SocketFlags.None, out SocketError error);
            if (error != SocketError.Success)
            {
                if (!IsTransient(error))
                {
                    connection.FailSend(ErrorText.ErrnoOf(error));
                    return;
                }

                sent = 0;
            }

            int offered = data.Length;
            if (sent > 0) connection.AdvanceSend(sent);
            if (sent >= offered) continue;
            SendWhenPossible(connection, socket);
            return;
        }

        connection.CompleteSend();
    }

    private ReadOnlySpan<byte> Gather(Block head) => new(_gather, head.CopyTo(new Span<byte>(_gather, GatherBytes)));

    /// <summary>Hands the head of the queue to an asynchronous send.</summary>
    private void SendWhenPossible(Connection connection, Socket socket)
    {
        Block head = connection.SendHead!;
        PortableOperation operation = TakeOperation(_freeSends) ?? new PortableOperation(_completions, OperationKind.Send);
        operation.SetBlock(head.Memory + head.Start, Math.Min(head.Length, PendingSendBytes));
        Begin(operation, connection);
        // Completed at once: delivered with the others in the next turn, which is as good as in flight.
        if (!socket.SendAsync(operation)) AddReady(operation);
    }

    private void Sent(Connection connection, PortableOperation operation)
    {
        SocketError error = operation.SocketError;
        int count = operation.BytesTransferred;
        ReturnOperation(_freeSends, operation);
        if (count > 0) connection.AdvanceSend(count);
        if (error == SocketError.Success || IsTransient(error)) SendQueue(connection);
        else connection.FailSend(ErrorText.ErrnoOf(error));
    }

    private static bool IsTransient(SocketError error) =>
        error is SocketError.WouldBlock or SocketError.NoBufferSpaceAvailable or SocketError.Interrupted or SocketError.IOPending or SocketError.InProgress;

    internal override int TrySendNow(Connection connection, ReadOnlySpan<IoVector> pieces)
    {
        int sent = 0;
        foreach (IoVector piece in pieces)
        {
            // One by one: a list of pieces would be an allocation, and a copy is what this is to spare.
            Counters.Sends++;
            ReadOnlySpan<byte> data = new(piece.Base, (int)piece.Length);
            int count = _slots[connection.Slot].Socket!.Send(data, SocketFlags.None, out SocketError error);
            if (error == SocketError.Success) sent += count;
            else if (!IsTransient(error)) connection.FailSend(ErrorText.ErrnoOf(error));
            if (error != SocketError.Success || count < data.Length) break;
        }

        return sent;
    }

    internal override void ShutdownSend(Connection connection)
    {
        ref PortableSlot slot = ref _slots[connection.Slot];
        if (slot.IsDeferred) slot.FinishesLater = true;
        else Shutdown(slot.Socket!);
    }

    private static void Shutdown(Socket socket)
    {
        try
        {
            socket.Shutdown(SocketShutdown.Send);
        }
        catch (SocketException)
        {
            // The peer has reset it: receiving tells.
        }
    }

    /// <summary>
    /// Twice: first it starts the empty send, which asks the peer also for a session that has nothing to say; then the send has ended,
    /// because the peer answered. Shutting down before would break the attempt off, and what went out with it.
    /// </summary>
    private void OpenDeferred(Connection connection, PortableOperation operation)
    {
        ref PortableSlot slot = ref _slots[connection.Slot];
        if (!operation.IsUnderWay || IsTransient(operation.SocketError))
        {
            operation.IsUnderWay = true;
            operation.SetBuffer(Memory<byte>.Empty);
            Begin(operation, connection);
            if (!slot.Socket!.SendAsync(operation)) AddReady(operation);
            return;
        }

        slot.IsDeferred = false;
        SocketError error = operation.SocketError;
        operation.Dispose();
        if (error != SocketError.Success) connection.FailSend(ErrorText.ErrnoOf(error));
        else if (slot.FinishesLater) Shutdown(slot.Socket!);
    }
}
