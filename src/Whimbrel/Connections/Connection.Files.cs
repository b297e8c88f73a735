using System.Diagnostics;
using Whimbrel.Buffers;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;
using Whimbrel.Linux;

namespace Whimbrel.Connections;

/// <summary>
/// Parts of files in the send queue (docs/design/0023). Where the engine has it, the system sends them out of its cache; over TLS and
/// elsewhere they are read in pieces, on the pool, each when all before it is on its way.
/// </summary>
internal sealed partial class Connection
{
    // ------------------------------------------------------------------ the way in

    /// <summary>Queues a copy of the head and behind it a part of a file, as one message. Any thread. The caller has a loan of the file.</summary>
    internal SendResult SendFile(ReadOnlySpan<byte> head, in FileRange file, uint generation) =>
        IsRefused(head.Length + file.Length, generation)
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
        result = Loop.Mailbox.PostFile(this, generation, head, file, charge, mayWait);
        if (result == SendResult.Queued)
        {
            Strand.CurrentOf(this, generation)?.Sent(head.Length + file.Length, leaves: false);
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
        if (generation == Generation && TakesQueued && _tenancy.SendError == 0)
        {
            EnqueueFile(file);
            CountMessage(file.Length);
        }

        file.File.EndLoan();
        ForeignArrived(charge, generation);
    }

    // ------------------------------------------------------------------ in pieces

    /// <summary>It cannot go as it is: encrypted, by an engine that knows no files, or of a kind that the system does not send by itself.</summary>
    private bool MustRead(Block block) => block.Kind == BlockKind.File && (block.IsRead || !Loop.SendsFiles);

    /// <summary>Asks for the next piece of the file that all waits for. Everything before it has left the queue.</summary>
    internal void ReadFile(Block file)
    {
        if (_tenancy.FileRead is not null) return;
        Loop.SendPace.SpendOnFile(Math.Min(file.Length, FileRead.MostBytes));
        _tenancy.FileRead = FileRead.Start(this, file);
    }

    /// <summary>A piece is there: it goes in front of what is left of its file.</summary>
    internal void FileWasRead(FileRead read)
    {
        if (!ReferenceEquals(read, _tenancy.FileRead))
        {
            // Thrown away with the queue meanwhile.
            read.Dispose();
            return;
        }

        _tenancy.FileRead = null;
        if (read.Count == 0)
        {
            read.Dispose();
            FailFile(read.Fault);
            return;
        }

        // An upgrade may have moved the file to the wire queue while it was read.
        bool isOnWire = _tenancy.Tls is { Wire.Head.Kind: BlockKind.File };
        ref BlockQueue blocks = ref isOnWire ? ref _tenancy.Tls!.Wire : ref _queue.Blocks;
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

    /// <summary>The system was given the file at the head of the queue, and took so much, or said no for a reason that is the file's (minus the error number).</summary>
    internal void CompleteFile(long result)
    {
        Block file = SendHead!;
        Loop.SendPace.SpendOnFile(result);
        if (result == 0)
        {
            FailFile(null);
            return;
        }

        // What is wrong with the file, if anything is, reading finds out.
        if (result < 0) file.IsRead = true;
        else AdvanceSend(result);
        CompleteSend();
    }

    /// <summary>
    /// The peer was promised what the file does not have: nothing can follow. The session hears of it in the completion phase.
    /// </summary>
    private void FailFile(Exception? fault)
    {
        _tenancy.SendInFlight = false;
        if (_tenancy.QueueFault is not null) return;
        fault ??= new EndOfStreamException(
            "The file ended before all that was to be sent of it: it was cut off meanwhile.");
        _tenancy.QueueFault = fault;
        _tenancy.FileFailed = true;
        Shard.Host.NoteFile(Session, fault);
        RefuseForeign();
        DiscardQueue();
        EndOperations();
        Loop.Schedule(this);
    }
}
