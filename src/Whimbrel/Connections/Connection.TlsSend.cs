using Whimbrel.Buffers;
using Whimbrel.Tls;

namespace Whimbrel.Connections;

/// <summary>
/// TLS, the way out. Sessions fill the same queue of plaintext as without TLS, with the same limits and counts; the flush encrypts
/// a stretch of it, in as few records as can be, into the wire queue, which is what engines send. Plaintext counts as pending until the
/// system took the records that carry it.
/// </summary>
// Safe: a block of the queue is read between Start and End while it is queued; the output never passes its block's capacity.
internal sealed unsafe partial class Connection
{
    /// <summary>Plaintext encrypted at a time: enough for one system call, little enough to stay in the cache.</summary>
    private const int EncryptMostBytes = 64 * 1024;

    /// <summary>Blocks below this are joined with those behind them: each record costs 22 bytes and a microsecond.</summary>
    private const int JoinBelowBytes = 8 * 1024;

    private bool HasQueued => !_queue.Blocks.IsEmpty || _tenancy.Tls is { Wire.IsEmpty: false };

    private void FlushTls(TlsLink tls)
    {
        if (_tenancy.SendInFlight || State is not (ConnectionState.Open or ConnectionState.Concluding or ConnectionState.Draining or ConnectionState.Handshaking)) return;
        if (tls.IsInCall)
        {
            // Inside a callback that the layer's own delivery made: it must not be entered again.
            MarkDirty();
            return;
        }

        while (tls.Wire.Head is { Length: 0 }) Return(tls.Wire.Dequeue());
        if (tls.Wire.IsEmpty && !_queue.Blocks.IsEmpty && tls.CanSend && !tls.SaidGoodbye) Encrypt(tls);
        if (tls.Wire.IsEmpty)
        {
            if (State == ConnectionState.Draining || IsFinishing) Loop.Schedule(this);
            return;
        }

        if (SendHead is null)
        {
            // Queued in the clear, before an upgrade.
            ReadFile(tls.Wire.Head!);
            return;
        }

        _tenancy.SendInFlight = true;
        Loop.StartSend(this);
    }

    private void Encrypt(TlsLink tls)
    {
        CipherBlock output = Loop.Tls.Outgoing;
        Block wire = Loop.Blocks.Take();
        output.Use(wire.Memory, wire.Capacity);
        long plainInWire = 0;
        long plain = 0;
        while (_queue.Blocks.Head is { } block && plain < EncryptMostBytes)
        {
            if (block.Length == 0)
            {
                Return(_queue.Blocks.Dequeue());
                continue;
            }

            if (block.Kind == BlockKind.File)
            {
                ReadFile(block);
                break;
            }

            ReadOnlySpan<byte> bytes = block.Length < JoinBelowBytes && block.Next is not null ? Join(block) : new ReadOnlySpan<byte>(block.Memory + block.Start, block.Length);
            bool wasInCall = tls.IsInCall;
            tls.IsInCall = true;
            TlsStep step = tls.Layer!.Send(bytes, out int accepted, output);
            tls.IsInCall = wasInCall;
            TakeEncrypted(tls, accepted);
            plain += accepted;
            plainInWire += accepted;
            if (step == TlsStep.Refused)
            {
                tls.AddPlain(plainInWire);
                PutOnWire(tls, wire, output.Length);
                FailTls(tls.Layer.Fault);
                return;
            }

            if (step != TlsStep.OutputFull && output.Room >= CipherBlock.LeastBytes) continue;
            tls.AddPlain(plainInWire);
            plainInWire = 0;
            PutOnWire(tls, wire, output.Length);
            wire = Loop.Blocks.Take();
            output.Use(wire.Memory, wire.Capacity);
        }

        tls.AddPlain(plainInWire);
        PutOnWire(tls, wire, output.Length);
    }

    /// <summary>Small blocks side by side, up to one record, without taking them out.</summary>
    private ReadOnlySpan<byte> Join(Block head)
    {
        Span<byte> joined = Loop.Tls.Joined;
        return joined[..head.CopyTo(joined)];
    }

    /// <summary>Encrypted: the blocks are free, the bytes are counted until they are sent.</summary>
    private void TakeEncrypted(TlsLink tls, long count)
    {
        while (count > 0)
        {
            bool isOfFile = _queue.Blocks.Head!.IsOfFile;
            long before = count;
            Block? done = _queue.Blocks.Advance(ref count);
            if (isOfFile) tls.FilePlain += before - count;
            if (done is not null) Return(done);
        }
    }

    /// <summary>The system took this many bytes of the wire queue.</summary>
    private void AdvanceWire(TlsLink tls, long count)
    {
        for (long rest = count; rest > 0;)
        {
            if (tls.Wire.Advance(ref rest) is { } sent) Return(sent);
        }

        long plain = tls.Advance(count);
        if (plain > 0)
        {
            CountSent(plain);
            long ofFiles = tls.TakeFilePlain(plain);
            _queue.Count(ofFiles - plain);
            _queue.CountFiles(-ofFiles);
            if (NeedsRoom) Loop.Schedule(this);
        }

        if (_tenancy.Marks.First is not null) PassMarks();
    }

    private void DiscardWire(TlsLink tls)
    {
        while (!tls.Wire.IsEmpty) Return(tls.Wire.Dequeue());
        tls.Discarded();
    }

    /// <summary>Tells the peer that this half ends properly. True when that is to be sent first.</summary>
    private bool SayGoodbye()
    {
        if (_tenancy.Tls is not { OwesGoodbye: true } tls || tls.IsInCall) return false;
        Block block = Loop.Blocks.Take();
        CipherBlock output = Loop.Tls.Outgoing;
        output.Use(block.Memory, block.Capacity);
        tls.IsInCall = true;
        tls.Layer!.CloseNotify(output);
        tls.IsInCall = false;
        bool wrote = output.Length > 0;
        PutOnWire(tls, block, output.Length);
        tls.SaidGoodbye = true;
        return wrote;
    }

    /// <summary>What the layer put out because of what came.</summary>
    private void PutAnswer(TlsLink tls, Block block, int length)
    {
        bool isAnswer = length > 0 && !tls.SaidGoodbye;
        if (isAnswer && !tls.CountAnswer(length))
        {
            Loop.Blocks.Return(block);
            FailTls(new TlsFault(TlsFailure.Flood, $"the peer asks for answers and reads none: {TlsLink.MostAnswersWaiting / 1024} KiB of them wait to be sent"));
        }
        else if (isAnswer && tls.TryJoin(new ReadOnlySpan<byte>(block.Memory, length)))
        {
            Loop.Blocks.Return(block);
            MarkDirty();
        }
        else
        {
            PutOnWire(tls, block, length);
        }
    }

    private void PutOnWire(TlsLink tls, Block block, int length)
    {
        // After our end nothing may follow: an answer to a change of keys has nobody who needs it.
        if (length == 0 || tls.SaidGoodbye)
        {
            Loop.Blocks.Return(block);
            return;
        }

        block.Start = 0;
        block.End = length;
        tls.Enqueue(block, 0);
        MarkDirty();
    }

    private void PutOnWire(TlsLink tls, ReadOnlySpan<byte> bytes)
    {
        Block block = Loop.Blocks.Take();
        bytes.CopyTo(new Span<byte>(block.Memory, block.Capacity));
        PutOnWire(tls, block, bytes.Length);
    }
}
