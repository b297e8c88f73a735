using System.Net.Sockets;
using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Datagrams;
using Whimbrel.Diagnostics;
using Whimbrel.Linux;

namespace Whimbrel.Engines.Portable;

/// <summary>
/// Receiving and sending. An idle connection waits with a small buffer of its own. If that buffer is filled, further
/// data is read at once into the loop's shared buffer, and both are delivered together. Sends are tried at once; only
/// data that the socket cannot take now waits for an asynchronous call.
/// </summary>
// Safe: as in PortableLoop.cs; spans over the two buffers never leave the call that created them.
internal sealed unsafe partial class PortableLoop
{
    /// <summary>Buffer of an idle connection. Most requests fit; every connection pays for a larger one.</summary>
    private const int SmallBytes = 2 * 1024;

    private const int ReceiveBytes = 64 * 1024;
    private const int GatherBytes = 64 * 1024;

    /// <summary>
    /// Shorter blocks are joined before they are sent, because a copy costs less than another system call.
    /// </summary>
    private const int GatherBelowBytes = 16 * 1024;

    /// <summary>
    /// Most bytes of one asynchronous send: it reports no progress before its end, and the drain timeout depends on
    /// progress.
    /// </summary>
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

    /// <summary>
    /// Records that the socket has more data, which is read in the next turn without an asynchronous call.
    /// </summary>
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
    /// Delivers data. Meanwhile the connection counts as being read: a callback that pauses and then closes starts a
    /// receive that discards data, and this one must not run beside the receive that follows here. Returns false if the
    /// connection has left the slot.
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

    /// <summary>Returns the buffer for receives on the loop's thread.</summary>
    private Span<byte> HotBlock(Connection connection) =>
        _slots[connection.Slot].Size.IsLarge && connection.TakesLargeBlocks
            ? new Span<byte>(_largeBlock.Take(), LargeBlock.Bytes)
            : new Span<byte>(_buffer, ReceiveBytes);

    /// <summary>
    /// Reads into the shared buffer after the <paramref name="held"/> bytes that are already in it, and delivers all of
    /// it.
    /// </summary>
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
        else if (outcome is not (SocketError.Success or SocketError.WouldBlock or SocketError.Interrupted))
            ReceiveFailed(connection, outcome);
        else if (!_slots[slot].IsWanted) return;
        else if (held + count == block.Length) ReadOn(connection);
        else ReceiveNext(connection);
    }

    private void ReceiveEnded(Connection connection)
    {
        _slots[connection.Slot].IsWanted = false;
        connection.CompleteReceiveEnd();
    }

    /// <summary>
    /// Delivers a receive error now, or keeps it until the connection is read again, because unread data must be
    /// delivered first.
    /// </summary>
    private void ReceiveFailed(Connection connection, SocketError error)
    {
        ref PortableSlot slot = ref _slots[connection.Slot];
        slot.HeldError = ErrorText.ErrnoOf(error);
        if (!slot.IsWanted) return;
        slot.IsWanted = false;
        connection.CompleteReceiveError(slot.HeldError);
    }

    // ------------------------------------------------------------------ send

    internal override void StartSend(Connection connection, bool isOffer)
    {
        if (isOffer && connection.Outbound.IsSendInFlight) return;
        connection.Outbound.BeginSending();
        SendQueue(connection);
    }

    /// <summary>Sends from the head of the queue until it is empty or the socket is full.</summary>
    private void SendQueue(Connection connection)
    {
        Socket socket = _slots[connection.Slot].Socket!;
        while (connection.Outbound.SendHead is { } head && head.Length > 0)
        {
            ReadOnlySpan<byte> data = head.NextInMemory is not null && head.Length < GatherBelowBytes
                ? Gather(head)
                : new(head.Memory + head.Start, head.Length);
            Counters.Sends++;
            int sent = socket.Send(data, SocketFlags.None, out SocketError error);
            if (error != SocketError.Success)
            {
                if (!IsTransient(error))
                {
                    connection.Outbound.FailSend(ErrorText.ErrnoOf(error));
                    return;
                }

                sent = 0;
            }

            int offered = data.Length;
            if (sent > 0) connection.Outbound.AdvanceSend(sent);
            if (sent >= offered) continue;
            SendWhenPossible(connection, socket);
            return;
        }

        connection.Outbound.CompleteSend();
    }

    private ReadOnlySpan<byte> Gather(Block head) => new(_gather, head.CopyTo(new Span<byte>(_gather, GatherBytes)));

    /// <summary>Passes the head of the queue to an asynchronous send.</summary>
    private void SendWhenPossible(Connection connection, Socket socket)
    {
        Block head = connection.Outbound.SendHead!;
        PortableOperation operation = TakeOperation(_freeSends)
            ?? new PortableOperation(_completions, OperationKind.Send);
        operation.SetBlock(head.Memory + head.Start, Math.Min(head.Length, PendingSendBytes));
        Begin(operation, connection);
        // If it completes at once, it is delivered with the others in the next turn, like one in flight.
        if (!socket.SendAsync(operation)) AddReady(operation);
    }

    private void Sent(Connection connection, PortableOperation operation)
    {
        SocketError error = operation.SocketError;
        int count = operation.BytesTransferred;
        ReturnOperation(_freeSends, operation);
        if (count > 0) connection.Outbound.AdvanceSend(count);
        if (error == SocketError.Success || IsTransient(error)) SendQueue(connection);
        else connection.Outbound.FailSend(ErrorText.ErrnoOf(error));
    }

    private static bool IsTransient(SocketError error) =>
        error is SocketError.WouldBlock or SocketError.NoBufferSpaceAvailable or SocketError.Interrupted
            or SocketError.IOPending or SocketError.InProgress;

    internal override int TrySend(Connection connection, ReadOnlySpan<IoVector> pieces)
    {
        int sent = 0;
        foreach (IoVector piece in pieces)
        {
            // One piece per call: a list of pieces would be an allocation, and joining them would be the copy that this
            // method avoids.
            Counters.Sends++;
            ReadOnlySpan<byte> data = new(piece.Base, (int)piece.Length);
            int count = _slots[connection.Slot].Socket!.Send(data, SocketFlags.None, out SocketError error);
            if (error == SocketError.Success) sent += count;
            else if (!IsTransient(error) && sent == 0) return -ErrorText.ErrnoOf(error);
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
            // The peer has reset the connection; the next receive reports it.
        }
    }

    /// <summary>
    /// Called twice. The first call starts an empty send, which connects even if the session sends nothing. The second
    /// call comes when that send has ended because the peer answered. Shutting down before would abort the connect and
    /// the data sent with it.
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
        if (error != SocketError.Success) connection.Outbound.FailSend(ErrorText.ErrnoOf(error));
        else if (slot.FinishesLater) Shutdown(slot.Socket!);
    }
}
