using Whimbrel.Buffers;
using Whimbrel.Tls;

namespace Whimbrel.Connections;

/// <summary>
/// TLS, the way out. Sessions fill the same queue of plaintext as without TLS, with the same limits and counts; the flush encrypts
/// a stretch of it, in as few records as can be, into the wire queue, which is what engines send. Plaintext counts as pending until the
/// system took the records that carry it.
/// </summary>
// Safe: a block of the queue is read between Start and End while it is queued; the output never passes its block's capacity.
internal sealed unsafe partial class TlsTransport
{
    /// <summary>Plaintext encrypted at a time: enough for one system call, little enough to stay in the cache.</summary>
    private const int EncryptMostBytes = 64 * 1024;

    /// <summary>Blocks below this are joined with those behind them: each record costs 22 bytes and a microsecond.</summary>
    private const int JoinBelowBytes = 8 * 1024;

    internal void Flush()
    {
        if (_connection.IsSendInFlight || State is not (ConnectionState.Open or ConnectionState.Concluding or ConnectionState.Draining or ConnectionState.Handshaking)) return;
        if (IsInCall)
        {
            // Inside a callback that the layer's own delivery made: it must not be entered again.
            _connection.MarkDirty();
            return;
        }

        while (Wire.Head is { Length: 0 }) _connection.Return(Wire.Dequeue());
        if (Wire.IsEmpty && !_connection.Queue.Blocks.IsEmpty && CanSend && !SaidGoodbye) Encrypt();
        if (Wire.IsEmpty)
        {
            if (State == ConnectionState.Draining || _connection.IsFinishing) Loop.Schedule(_connection);
            return;
        }

        if (_connection.SendHead is null)
        {
            // Queued in the clear, before an upgrade.
            _connection.ReadFile(Wire.Head!);
            return;
        }

        _connection.BeginSending();
        Loop.StartSend(_connection);
    }

    internal void Encrypt()
    {
        CipherBlock output = Loop.Tls.Outgoing;
        Block wire = Loop.Blocks.Take();
        output.Use(wire.Memory, wire.Capacity);
        long plainInWire = 0;
        long plain = 0;
        while (_connection.Queue.Blocks.Head is { } block && plain < EncryptMostBytes)
        {
            if (block.Length == 0)
            {
                _connection.Return(_connection.Queue.Blocks.Dequeue());
                continue;
            }

            if (block.Kind == BlockKind.File)
            {
                _connection.ReadFile(block);
                break;
            }

            ReadOnlySpan<byte> bytes = block.Length < JoinBelowBytes && block.Next is not null ? Join(block) : new ReadOnlySpan<byte>(block.Memory + block.Start, block.Length);
            bool wasInCall = IsInCall;
            IsInCall = true;
            TlsStep step = Layer!.Send(bytes, out int accepted, output);
            IsInCall = wasInCall;
            TakeEncrypted(accepted);
            plain += accepted;
            plainInWire += accepted;
            if (step == TlsStep.Refused)
            {
                AddPlain(plainInWire);
                PutOnWire(wire, output.Length);
                Fail(Layer.Fault);
                return;
            }

            if (step != TlsStep.OutputFull && output.Room >= CipherBlock.LeastBytes) continue;
            AddPlain(plainInWire);
            plainInWire = 0;
            PutOnWire(wire, output.Length);
            wire = Loop.Blocks.Take();
            output.Use(wire.Memory, wire.Capacity);
        }

        AddPlain(plainInWire);
        PutOnWire(wire, output.Length);
    }

    /// <summary>Small blocks side by side, up to one record, without taking them out.</summary>
    private ReadOnlySpan<byte> Join(Block head)
    {
        Span<byte> joined = Loop.Tls.Joined;
        return joined[..head.CopyTo(joined)];
    }

    /// <summary>Encrypted: the blocks are free, the bytes are counted until they are sent.</summary>
    private void TakeEncrypted(long count)
    {
        while (count > 0)
        {
            bool isOfFile = _connection.Queue.Blocks.Head!.IsOfFile;
            long before = count;
            Block? done = _connection.Queue.Blocks.Advance(ref count);
            if (isOfFile) FilePlain += before - count;
            if (done is not null) _connection.Return(done);
        }
    }

    internal void DiscardWire()
    {
        while (!Wire.IsEmpty) _connection.Return(Wire.Dequeue());
        Discarded();
    }

    /// <summary>Tells the peer that this half ends properly. True when that is to be sent first.</summary>
    internal bool SayGoodbye()
    {
        if (!OwesGoodbye || IsInCall) return false;
        Block block = Loop.Blocks.Take();
        CipherBlock output = Loop.Tls.Outgoing;
        output.Use(block.Memory, block.Capacity);
        IsInCall = true;
        Layer!.CloseNotify(output);
        IsInCall = false;
        bool wrote = output.Length > 0;
        PutOnWire(block, output.Length);
        SaidGoodbye = true;
        return wrote;
    }

    /// <summary>What the layer put out because of what came.</summary>
    private void PutAnswer(Block block, int length)
    {
        bool isAnswer = length > 0 && !SaidGoodbye;
        if (isAnswer && !CountAnswer(length))
        {
            Loop.Blocks.Return(block);
            Fail(new TlsFault(TlsFailure.Flood, $"the peer asks for answers and reads none: {MostAnswersWaiting / 1024} KiB of them wait to be sent"));
        }
        else if (isAnswer && TryJoin(new ReadOnlySpan<byte>(block.Memory, length)))
        {
            Loop.Blocks.Return(block);
            _connection.MarkDirty();
        }
        else
        {
            PutOnWire(block, length);
        }
    }

    private void PutOnWire(Block block, int length)
    {
        // After our end nothing may follow: an answer to a change of keys has nobody who needs it.
        if (length == 0 || SaidGoodbye)
        {
            Loop.Blocks.Return(block);
            return;
        }

        block.Start = 0;
        block.End = length;
        Enqueue(block, 0);
        _connection.MarkDirty();
    }

    private void PutOnWire(ReadOnlySpan<byte> bytes)
    {
        Block block = Loop.Blocks.Take();
        bytes.CopyTo(new Span<byte>(block.Memory, block.Capacity));
        PutOnWire(block, bytes.Length);
    }
}
