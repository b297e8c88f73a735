using System.Buffers;
using System.Diagnostics;
using Whimbrel.Buffers;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;
using Whimbrel.Linux;

namespace Whimbrel.Connections;

/// <summary>
/// Forms of data besides a copy of bytes: several pieces, memory that the caller hands over, blocks of a writer, parts
/// of files (docs/design/0023), and broadcasts (contract 17). Where the engine can, the system sends files out of its
/// cache; over TLS and elsewhere they are read in pieces, on the pool.
/// </summary>
// Safe: a run lives while this queue has a reference to it, and start and length were within it when it was written.
internal unsafe partial struct OutboundQueue
{
    // ------------------------------------------------------------------ many pieces

    /// <summary>Queues a copy of all pieces as one message, whole or not at all. Any thread.</summary>
    internal SendResult Send(scoped in Pieces pieces, uint generation) =>
        _connection.IsRefused(pieces.Length, generation)
            ? SendResult.Refused
            : TakePieces(pieces, generation, mayWait: false);

    /// <summary>
    /// What may run code of the user's (memory that is not an array) is looked at before the message is admitted: it
    /// may throw, or send something itself. Such pieces, and more than a row holds, are joined first; so are those of
    /// other threads.
    /// </summary>
    private SendResult TakePieces(scoped in Pieces pieces, uint generation, bool mayWait)
    {
        if (Loop.IsCurrent && pieces.IsWhole)
        {
            if (pieces.Length >= ByReferenceBytes && CanSendNow) return SendPinned(pieces, generation, mayWait);
            if (!pieces.AsksUser) return AppendPieces(pieces, generation, mayWait);
        }

        // Above every limit.
        if (pieces.Length > Array.MaxLength)
            return Loop.IsCurrent
                ? AdmitOrWait(pieces.Length, generation, mayWait)
                : TryReserveForeign(int.MaxValue, generation, mayWait);
        byte[] joined = ArrayPool<byte>.Shared.Rent((int)pieces.Length);
        try
        {
            pieces.CopyTo(joined);
            return TakeCopy(joined.AsSpan(0, (int)pieces.Length), default, generation, mayWait);
        }
        finally
        {
            ArrayPool<byte>.Shared.Return(joined);
        }
    }

    private SendResult AppendPieces(scoped in Pieces pieces, uint generation, bool mayWait)
    {
        SendResult result = AdmitOrWait(pieces.Length, generation, mayWait);
        if (result != SendResult.Queued) return result;
        for (int i = 0; i < pieces.Count; i++) Append(pieces[i].Span);
        CountMessage((int)pieces.Length);
        Loop.FlushIfMany();
        return SendResult.Queued;
    }

    /// <summary>
    /// Sends from the caller's memory if the queue is empty. Copies the bytes that the kernel did not accept.
    /// </summary>
    // Safe: each vector is the whole of a piece, which stays pinned until the loop below gives it back.
    private unsafe SendResult SendPinned(scoped in Pieces pieces, uint generation, bool mayWait)
    {
        PinnedRow pins = default;
        IoVector* vectors = stackalloc IoVector[Pieces.MostInRow];
        int count = 0;
        try
        {
            for (; count < pieces.Count; count++)
            {
                pins[count] = pieces[count].Pin();
                vectors[count] =
                    new IoVector { Base = (byte*)pins[count].Pointer, Length = (nuint)pieces[count].Length };
            }

            SendResult result = AdmitOrWait(pieces.Length, generation, mayWait);
            if (result != SendResult.Queued) return result;
            SendAdmitted(new ReadOnlySpan<IoVector>(vectors, count), (int)pieces.Length);
            return _error == 0 ? SendResult.Queued : SendResult.Closed;
        }
        finally
        {
            for (int i = 0; i < count; i++) Unpin(ref pins[i], generation);
        }
    }

    private void Unpin(ref MemoryHandle pin, uint generation)
    {
        try
        {
            pin.Dispose();
        }
        catch (Exception e)
        {
            // If the caller came too late, the connection serves another session now, which is not at fault.
            if (generation == Generation) MemoryThrew(e);
            else Loop.NoteMemory(e);
        }
    }

    // ------------------------------------------------------------------ memory that the caller hands over

    /// <param name="head">Copied in front of it.</param>
    /// <param name="owner">Ours with <see cref="SendResult.Queued"/>.</param>
    /// <param name="part">Part of its memory to send, as the caller saw it.</param>
    /// <param name="offset">Offset of the part in the memory.</param>
    /// <param name="generation">The caller's.</param>
    internal SendResult SendOwned(ReadOnlySpan<byte> head, IMemoryOwner<byte> owner, Memory<byte> part, int offset,
        uint generation)
    {
        long length = (long)head.Length + part.Length;
        if (_connection.IsRefused(length, generation)) return SendResult.Refused;
        if (!Loop.IsCurrent) return SendOwnedForeign(head, owner, offset, length, generation);
        SendResult result = Admit(length, generation);
        if (result == SendResult.Queued) EnqueueOwned(head, owner, part);
        return result;
    }

    /// <summary>
    /// When the memory throws, nothing was queued and the owner is still the caller's. Giving it back throws nothing.
    /// </summary>
    private void EnqueueOwned(ReadOnlySpan<byte> head, IMemoryOwner<byte> owner, Memory<byte> part)
    {
        if (part.Length < ByReferenceBytes)
        {
            // A small piece between two sends would cost each of those a block of its own.
            ReadOnlySpan<byte> bytes = part.IsEmpty ? default : part.Span;
            Append(head);
            Append(bytes);
            if (head.Length + bytes.Length > 0) CountOwned(owner);
            GiveBack(owner);
            return;
        }

        SettleStrand();
        // First: the memory is asked here, and nothing of the message may be queued when it throws.
        Block block = Loop.Blocks.TakeOwned(owner, part, part.Length);
        Append(head);
        _queue.Enqueue(block);
        CountOwned(owner);
        MarkDirty();
    }

    private void GiveBack(IMemoryOwner<byte> owner)
    {
        try
        {
            owner.Dispose();
        }
        catch (Exception e)
        {
            MemoryThrew(e);
        }
    }

    /// <summary>
    /// Memory of the user's that this connection sends, or has sent, threw on the loop. Perhaps in the middle of a
    /// send: noted, and the completion phase ends the connection, if it is still open. Until then nothing more is
    /// taken.
    /// </summary>
    private void MemoryThrew(Exception exception)
    {
        Loop.NoteMemory(exception);
        if (State != ConnectionState.Open || _fault is not null) return;
        _fault = exception;
        _queue.CloseFill();
        Refuse();
        Loop.Schedule(_connection);
    }

    /// <summary>As what a fault of what is sent ends the connection.</summary>
    internal CloseReason FaultReason =>
        new(_isFileFault ? CloseCause.FileFailed : CloseCause.UserException, 0, _fault);

    private void CountOwned(IMemoryOwner<byte> owner)
    {
        if (Shard.CountsSends) Shard.MessagesSent++;
    }

    private SendResult SendOwnedForeign(ReadOnlySpan<byte> head, IMemoryOwner<byte> owner, int offset, long length,
        uint generation)
    {
        // More than any limit is refused by the first of the next lines.
        int bytes = (int)Math.Min(length, int.MaxValue);
        SendResult result = TryReserveForeign(bytes, generation);
        if (result != SendResult.Queued) return result;
        result = Loop.Mailbox.PostOwned(_connection, generation, head, owner, offset, bytes);
        if (result != SendResult.Queued) TakeBackForeign(bytes, generation);
        else PoolSession.CurrentOf(_connection, generation)?.Sends.Sent(bytes, leaves: false);
        return result;
    }

    /// <param name="generation">The sender's.</param>
    /// <param name="owner">Owner of the memory.</param>
    /// <param name="offset">Offset of the first byte in the memory.</param>
    /// <param name="length">Number of bytes.</param>
    internal void DrainOwned(uint generation, IMemoryOwner<byte> owner, int offset, int length)
    {
        BeginDrain();
        try
        {
            // Read again, not kept from the call: if other code has disposed the memory meanwhile, it may have a new
            // owner.
            if (generation == Generation && TakesQueued && _error == 0)
                EnqueueDrained(owner, offset, length);
            else DropOwned(owner, length, generation);
        }
        catch (Exception e)
        {
            MemoryThrew(e);
            DropOwned(owner, length, generation);
        }

        ForeignArrived(length, generation);
    }

    /// <summary>Accepted, and dropped when its turn came: the connection was ending.</summary>
    private void CountLost(long length, uint generation)
    {
        if (generation == Generation) _connection.Loses(length);
    }

    private void DropOwned(IMemoryOwner<byte> owner, int length, uint generation)
    {
        CountLost(length, generation);
        GiveBackOfOthers(owner);
    }

    /// <summary>Releases memory that is not sent. An exception does not affect the session served now.</summary>
    private void GiveBackOfOthers(IMemoryOwner<byte> owner)
    {
        try
        {
            owner.Dispose();
        }
        catch (Exception e)
        {
            Loop.NoteMemory(e);
        }
    }

    // ------------------------------------------------------------------ blocks of a writer

    /// <param name="first">First block of the message, linked to the others. Owned by the connection if the result is
    /// <see cref="SendResult.Queued"/>.</param>
    /// <param name="length">Total number of bytes of all blocks.</param>
    /// <param name="generation">Generation of the caller's session.</param>
    internal SendResult SendWritten(WriterBlock first, int length, uint generation)
    {
        if (_connection.IsRefused(length, generation)) return SendResult.Refused;
        if (!Loop.IsCurrent) return SendOwnedForeign(default, first, 0, length, generation);
        SendResult result = Admit(length, generation);
        if (result == SendResult.Queued) EnqueueWritten(first, length);
        return result;
    }

    /// <summary>Queues an admitted message.</summary>
    private void EnqueueWritten(WriterBlock first, int length)
    {
        SettleStrand();
        for (WriterBlock? block = first, next; block is not null; block = next)
        {
            next = block.NextBlock;
            block.NextBlock = null;
            if (block.Length < ByReferenceBytes)
            {
                // Copied like other small memory, because a separate block would split the fill blocks of neighbouring
                // sends.
                Append(block.Written);
                block.Dispose();
            }
            else
            {
                _queue.Enqueue(Loop.Blocks.TakeOwned(block, ((IMemoryOwner<byte>)block).Memory, block.Length));
            }
        }

        CountMessage(length);
        MarkDirty();
    }

    /// <summary>Queues memory that another thread has sent.</summary>
    private void EnqueueDrained(IMemoryOwner<byte> owner, int offset, int length)
    {
        if (owner is WriterBlock first) EnqueueWritten(first, length);
        else EnqueueOwned(default, owner, owner.Memory.Slice(offset, length));
    }

    // ------------------------------------------------------------------ files

    // ------------------------------------------------------------------ the way in

    /// <summary>
    /// Queues a copy of the head, then a part of a file, as one message. The caller has a reference to the file. Any
    /// thread.
    /// </summary>
    internal SendResult SendFile(ReadOnlySpan<byte> head, in FileRange file, uint generation) =>
        _connection.IsRefused(head.Length + file.Length, generation)
            ? SendResult.Refused
            : TakeFile(head, file, generation, mayWait: false);

    private SendResult TakeFile(ReadOnlySpan<byte> head, in FileRange file, uint generation, bool mayWait)
    {
        long cost = head.Length + file.Charge;
        if (!Loop.IsCurrent) return SendFileForeign(head, file, cost, generation, mayWait);
        SendResult result = AdmitOrWait(cost, generation, mayWait);
        if (result != SendResult.Queued) return result;
        Append(head);
        EnqueueFile(file);
        CountMessage(head.Length + file.Length);
        return SendResult.Queued;
    }

    private void EnqueueFile(in FileRange file)
    {
        SettleStrand();
        for (long done = 0; done < file.Length;)
        {
            int part = (int)Math.Min(file.Length - done, FileRange.MostInBlock);
            _queue.Enqueue(Loop.Blocks.TakeFile(file.File, file.Offset + done, part));
            done += part;
        }

        if (file.Length > 0) MarkDirty();
    }

    private SendResult SendFileForeign(ReadOnlySpan<byte> head, in FileRange file, long cost, uint generation,
        bool mayWait)
    {
        // More than any limit is refused by the first of the next lines.
        int charge = (int)Math.Min(cost, int.MaxValue);
        SendResult result = TryReserveForeign(charge, generation, mayWait);
        if (result != SendResult.Queued) return result;
        file.File.LendOn();
        result = Loop.Mailbox.PostFile(_connection, generation, head, file, charge, mayWait);
        if (result == SendResult.Queued)
        {
            PoolSession.CurrentOf(_connection, generation)?.Sends.Sent(head.Length + file.Length, leaves: false);
            return result;
        }

        file.File.EndLoan();
        TakeBackForeign(charge, generation);
        return result;
    }

    /// <param name="generation">The sender's.</param>
    /// <param name="file">With a loan for this item.</param>
    /// <param name="charge">Bytes that were reserved for it.</param>
    private void DrainFile(uint generation, in FileRange file, int charge)
    {
        BeginDrain();
        if (generation == Generation && TakesQueued && _error == 0)
        {
            EnqueueFile(file);
            CountMessage(file.Length);
        }

        file.File.EndLoan();
        ForeignArrived(charge, generation);
    }

    // ------------------------------------------------------------------ in pieces

    /// <summary>
    /// True for a part of a file that must be read: over TLS, by an engine that sends no files, or of a kind that the
    /// system does not send.
    /// </summary>
    private bool MustRead(Block block) => block.Kind == BlockKind.File && (block.IsRead || !Loop.SendsFiles);

    /// <summary>Reads the next piece of the file at the head of the queue.</summary>
    internal void ReadFile(Block file)
    {
        if (_fileRead is not null) return;
        Loop.SendPace.SpendOnFile(Math.Min(file.Length, FileRead.MostBytes));
        _fileRead = FileRead.Start(_connection, file);
    }

    /// <summary>Queues a piece that was read, before the rest of its file.</summary>
    internal void FileWasRead(FileRead read)
    {
        if (!ReferenceEquals(read, _fileRead))
        {
            // The queue was discarded meanwhile.
            read.Dispose();
            return;
        }

        _fileRead = null;
        if (read.Count == 0)
        {
            read.Dispose();
            FailFile(read.Fault);
            return;
        }

        // An upgrade may have moved the file to the wire queue while it was read.
        bool isOnWire = Tls is { Wire.Head.Kind: BlockKind.File };
        ref BlockQueue blocks = ref isOnWire ? ref Tls!.Wire : ref _queue.Blocks;
        Block file = blocks.Head!;
        Debug.Assert(file.Kind == BlockKind.File, "something passed the file while it was read");
        Block piece = Loop.Blocks.TakeOwned(read, ((System.Buffers.IMemoryOwner<byte>)read).Memory, read.Count);
        piece.IsOfFile = true;
        int charge = file.Charge;
        long count = read.Count;
        Block? done = blocks.Advance(ref count);
        // The wire queue has one count for all.
        if (!isOnWire) _queue.Uncharge(charge - file.Charge);
        if (done is not null) Return(done);
        blocks.Push(piece);
        MarkDirty();
    }

    // ------------------------------------------------------------------ what engines report

    /// <summary>
    /// Called when the system has sent this number of bytes of the file at the head, or rejects the file (negated error
    /// number).
    /// </summary>
    internal void CompleteFile(long result)
    {
        Block file = SendHead!;
        Loop.SendPace.SpendOnFile(result);
        if (result == 0)
        {
            FailFile(null);
            return;
        }

        // Reading the file reports what is wrong with it.
        if (result < 0) file.IsRead = true;
        else AdvanceSend(result);
        CompleteSend();
    }

    /// <summary>
    /// Ends sending, because the file is shorter than announced to the peer. The session is notified in the completion
    /// phase.
    /// </summary>
    private void FailFile(Exception? fault)
    {
        _isInFlight = false;
        if (_fault is not null) return;
        fault ??= new EndOfStreamException(
            "The file ended before all that was to be sent of it: it was cut off meanwhile.");
        _fault = fault;
        _isFileFault = true;
        Shard.Host.NoteFile(Session, fault);
        Refuse();
        DiscardQueue();
        EndOperations();
        Loop.Schedule(_connection);
    }

    // ------------------------------------------------------------------ broadcasts (contract 17)

    internal BroadcastGate BroadcastGate
    {
        get => _gate;
        set
        {
            _gate = value;
            ReleaseHeldRuns();
            UseRoom();
        }
    }

    /// <summary>
    /// Sets the gate for the session itself, on the loop: earlier sends are queued before broadcasts that the gate
    /// releases.
    /// </summary>
    internal void SetBroadcastGate(BroadcastGate gate)
    {
        SettleForeign();
        BroadcastGate = gate;
    }

    /// <summary>Queues or drops held broadcasts when the gate is no longer held.</summary>
    private void ReleaseHeldRuns()
    {
        if (_heldRuns is not { Count: > 0 } held || _gate == BroadcastGate.Held) return;
        // A message that is sent in pieces is finished first; there was space for it in addition to the held
        // broadcasts.
        if (_operations.First is { HasStarted: true }) return;
        foreach ((Run run, int start, int length) in held)
        {
            _queue.Count(-length);
            if (_gate == BroadcastGate.Open && State == ConnectionState.Open && !IsFinishing
                && _error == 0)
                QueueRun(run, start, length);
            Release(run);
        }

        held.Clear();
    }

    /// <summary>Queues a part of a run by reference. Returns false if this member does not get all of it.</summary>
    /// <param name="run">Run with the messages.</param>
    /// <param name="start">Offset of the first byte in the run.</param>
    /// <param name="length">Number of bytes.</param>
    /// <param name="messages">Lengths of the messages that were joined.</param>
    internal bool AppendRun(Run run, int start, int length, ReadOnlySpan<int> messages)
    {
        if (State != ConnectionState.Open || IsFinishing || _error != 0 || _fault is not null
            || _gate == BroadcastGate.Shut)
            return false;
        if (_operations.First is not null)
        {
            // Between the pieces of a message, or before an earlier message, a broadcast cannot be queued (contracts 6,
            // 7).
            Shard.BroadcastsDropped += messages.Length;
            return false;
        }

        if (!_queue.HasRoomFor(length))
        {
            bool isTooLarge = !_queue.MayEverFit(length);
            // With Disconnect, the first message that does not fit ends the connection, even if earlier ones fitted.
            if (messages.Length > 1
                && (isTooLarge || Shard.Options.CommonLimits.SlowConsumer != SlowConsumer.Disconnect))
                return AppendFitting(run, start, messages);
            Shard.BroadcastsDropped += messages.Length;
            if (isTooLarge) Shard.Host.NoteTooLarge(Session, length, _queue.Limit);
            else OverLimit();
            return false;
        }

        if (_gate == BroadcastGate.Held)
        {
            (_heldRuns ??= []).Add((run, start, length));
            run.References++;
            _queue.Count(length);
            return true;
        }

        QueueRun(run, start, length);
        return true;
    }

    /// <summary>
    /// Queues the messages of a joined run that fit, as if each had arrived alone. Returns false if not all of them
    /// fit.
    /// </summary>
    private bool AppendFitting(Run run, int start, ReadOnlySpan<int> messages)
    {
        bool all = true;
        for (int i = 0; i < messages.Length; i++)
        {
            all &= AppendRun(run, start, messages[i], messages.Slice(i, 1));
            start += messages[i];
        }

        return all;
    }

    private void QueueRun(Run run, int start, int length)
    {
        SettleStrand();
        if (_queue.Queued >= CopyRunFromQueuedBytes && length < ByReferenceBytes
            && _queue.Blocks.Tail is { Kind: BlockKind.Pooled })
        {
            Append(new ReadOnlySpan<byte>(run.Memory + start, length));
            return;
        }

        if (length < CopyRunBelowBytes && length <= _queue.Room)
        {
            _queue.Copy(new ReadOnlySpan<byte>(run.Memory + start, length));
            return;
        }

        _queue.CloseFill();
        if (_queue.Blocks.Tail is { Kind: BlockKind.Run } tail && ReferenceEquals(tail.Run, run) && tail.End == start)
        {
            tail.End += length;
            _queue.Count(length);
        }
        else
        {
            _queue.Enqueue(Loop.Blocks.TakeReference(run, start, length));
        }

        MarkDirty();
    }

    private void DropHeldRuns()
    {
        if (_heldRuns is null) return;
        foreach ((Run run, _, _) in _heldRuns) Release(run);
        _heldRuns.Clear();
    }

    private void Release(Run run)
    {
        if (Loop.Blocks.Release(run) is { } thrown) MemoryThrew(thrown);
    }

    internal void DrainBroadcastGate(uint generation, BroadcastGate gate)
    {
        if (generation == Generation) BroadcastGate = gate;
    }
}
