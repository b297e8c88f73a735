using Whimbrel.Buffers;
using Whimbrel.Tls;

namespace Whimbrel.Connections;

/// <summary>
/// Sending with TLS. Sessions fill the same queue of plaintext as without TLS, with the same limits and counts. The
/// flush encrypts a part of it, in as few records as possible, into the wire queue, which engines send. Plaintext
/// counts as pending until the system took the records that contain it.
/// </summary>
// Safe: a block of the queue is read between Start and End while it is queued; the output never exceeds its block's
// capacity.
internal sealed unsafe partial class TlsTransport
{
    /// <summary>Plaintext encrypted at a time: enough for one system call, small enough for the cpu cache.</summary>
    private const int EncryptMostBytes = 64 * 1024;

    /// <summary>
    /// Blocks below this size are joined with the following ones, because each record costs 22 bytes and a microsecond.
    /// </summary>
    private const int JoinBelowBytes = 8 * 1024;

    /// <summary>Queue that engines send.</summary>
    internal ref BlockQueue Wire => ref _wire.Blocks;

    /// <summary>Plaintext in the wire queue that was not counted as sent yet.</summary>
    internal long PlainUnsent => _wire.PlainUnsent;

    internal void Flush()
    {
        if (connection.Outbound.IsSendInFlight || State is not (ConnectionState.Open
            or ConnectionState.Concluding or ConnectionState.Draining or ConnectionState.Handshaking))
            return;
        if (_isInCall)
        {
            // Inside a callback that the layer's own delivery made: the layer must not be entered again.
            connection.Outbound.MarkDirty();
            return;
        }

        FillWire();
        if (Wire.IsEmpty)
        {
            if (State == ConnectionState.Draining || connection.IsFinishing) Loop.Schedule(connection);
            return;
        }

        if (connection.Outbound.SendHead is null)
        {
            // Queued in the clear, before an upgrade.
            connection.Outbound.ReadFile(Wire.Head!);
            return;
        }

        Loop.StartSend(connection, isOffer: false);
    }

    /// <summary>
    /// Encrypts before the queue is passed to the system. In a callback that the layer's delivery made, the layer can
    /// send too, unless its own reply must go first; then the result is false.
    /// </summary>
    internal bool TryFillWire()
    {
        if (_isInCall && Loop.Tls.Answer.Length > 0) return false;
        if (!connection.Outbound.IsSendInFlight) FillWire();
        return true;
    }

    private void FillWire()
    {
        while (Wire.Head is { Length: 0 }) connection.Outbound.Return(Wire.Dequeue());
        if (Wire.IsEmpty && !connection.Outbound.Queue.Blocks.IsEmpty && CanSend) Encrypt();
    }

    private void Encrypt()
    {
        ref BlockQueue queue = ref connection.Outbound.Queue.Blocks;
        CipherBlock output = TakeBlock(Loop.Tls.Outgoing, out Block wire);
        long plain = 0;
        while (queue.Head is { } block && plain < EncryptMostBytes)
        {
            if (block.Length == 0)
            {
                connection.Outbound.Return(queue.Dequeue());
                continue;
            }

            if (block.Kind == BlockKind.File)
            {
                connection.Outbound.ReadFile(block);
                break;
            }

            ReadOnlySpan<byte> bytes = block.Length < JoinBelowBytes && block.Next is not null
                ? Join(block)
                : new ReadOnlySpan<byte>(block.Memory + block.Start, block.Length);
            bool wasInCall = _isInCall;
            _isInCall = true;
            TlsStep step = _layer!.Send(bytes, out int accepted, output);
            _isInCall = wasInCall;
            TakeEncrypted(ref queue, accepted);
            plain += accepted;
            if (step == TlsStep.Refused)
            {
                PutOnWire(wire, output.Length);
                Fail(_layer.Fault);
                return;
            }

            if (step != TlsStep.OutputFull && output.Room >= CipherBlock.LeastBytes) continue;
            PutOnWire(wire, output.Length);
            TakeBlock(output, out wire);
        }

        PutOnWire(wire, output.Length);
    }

    /// <summary>Copies small blocks into one buffer, up to one record, without dequeuing them.</summary>
    private ReadOnlySpan<byte> Join(Block head)
    {
        Span<byte> joined = Loop.Tls.Joined;
        return joined[..head.CopyTo(joined)];
    }

    /// <summary>Releases encrypted blocks; their bytes stay counted until they are sent.</summary>
    private void TakeEncrypted(ref BlockQueue queue, long count)
    {
        while (count > 0)
        {
            bool isOfFile = queue.Head!.IsOfFile;
            long before = count;
            Block? done = queue.Advance(ref count);
            _wire.AddPlain(before - count, isOfFile);
            if (done is not null) connection.Outbound.Return(done);
        }
    }

    /// <summary>
    /// Takes the queue at an upgrade: its data is sent in the clear, and later data waits for the handshake.
    /// </summary>
    internal void TakePlain(ref SendQueue queue)
    {
        while (!queue.Blocks.IsEmpty)
        {
            Block block = queue.Blocks.Dequeue();
            if (block.Length > 0 || connection.Outbound.IsSendInFlight)
                _wire.Enqueue(block, block.Length);
            else Loop.Blocks.Return(block);
        }

        _wire.CountFiles(queue.InFiles);
    }

    /// <summary>
    /// Records sent bytes of the wire queue. Returns the number of plaintext bytes in them, and how many of those are a
    /// file's.
    /// </summary>
    internal long Advance(long count, out long ofFiles)
    {
        for (long rest = count; rest > 0;)
        {
            if (Wire.Advance(ref rest) is { } sent) connection.Outbound.Return(sent);
        }

        return _wire.Advance(count, out ofFiles);
    }

    internal void DiscardWire()
    {
        while (!Wire.IsEmpty) connection.Outbound.Return(Wire.Dequeue());
        _wire = default;
    }

    /// <summary>Queues a close_notify. Returns true if it has to be sent first.</summary>
    internal bool SayGoodbye()
    {
        if (!CanSend || _isInCall) return false;
        CipherBlock output = TakeBlock(Loop.Tls.Outgoing, out Block block);
        _isInCall = true;
        _layer!.CloseNotify(output);
        _isInCall = false;
        bool wrote = output.Length > 0;
        PutOnWire(block, output.Length);
        Go(Phase == TlsPhase.PeerEnded ? TlsPhase.BothEnded : TlsPhase.OwnEnded);
        return wrote;
    }

    /// <summary>Queues a reply of the layer to received data.</summary>
    private void PutAnswer(Block block, int length)
    {
        bool isAnswer = length > 0 && !SaidGoodbye;
        if (isAnswer && !_wire.CountAnswer(length))
        {
            Loop.Blocks.Return(block);
            Fail(new TlsFault(TlsFailure.Flood, $"the peer requests replies and reads none: "
                + $"{TlsWire.MostAnswersWaiting / 1024} KiB of them wait to be sent"));
        }
        else if (isAnswer && _wire.TryJoin(new ReadOnlySpan<byte>(block.Memory, length)))
        {
            Loop.Blocks.Return(block);
            connection.Outbound.MarkDirty();
        }
        else
        {
            PutOnWire(block, length);
        }
    }

    private CipherBlock TakeBlock(CipherBlock output, out Block block)
    {
        block = Loop.Blocks.Take();
        output.Use(block.Memory, block.Capacity);
        return output;
    }

    private void PutOnWire(Block block, int length)
    {
        // Nothing may follow close_notify. The peer needs no reply to a key update then.
        if (length == 0 || SaidGoodbye)
        {
            Loop.Blocks.Return(block);
            return;
        }

        block.Start = 0;
        block.End = length;
        _wire.Enqueue(block, 0);
        connection.Outbound.MarkDirty();
    }

    private void PutOnWire(ReadOnlySpan<byte> bytes)
    {
        for (; !bytes.IsEmpty; bytes = bytes[Math.Min(bytes.Length, BlockPool.BlockBytes)..])
        {
            Block block = Loop.Blocks.Take();
            int part = Math.Min(bytes.Length, BlockPool.BlockBytes);
            bytes[..part].CopyTo(new Span<byte>(block.Memory, part));
            PutOnWire(block, part);
        }
    }
}
