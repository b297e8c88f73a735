using System.Buffers;
using System.Threading.Tasks.Sources;

namespace Whimbrel.Tls;

/// <summary>
/// The stream that SslStream uses as its network. Reads return the input of the running call, one record at a time, and
/// otherwise wait until <see cref="Feed"/> completes them inline; writes go to the output of the running call. So
/// SslStream works only inside a call of the layer, on its caller's thread. Owner: one <see cref="SslStreamLayer"/>.
/// </summary>
// Safe: _input points into the span of the running call of the layer, which resets it before it returns.
internal sealed unsafe class SslStreamWire : Stream, IValueTaskSource<int>
{
    private const int RecordHeader = 5;

    // Continuations run inline, in Feed.
    private ManualResetValueTaskSourceCore<int> _core;
    private Memory<byte> _wanted;
    private bool _isWaiting;
    private byte* _input;
    private int _inputLength;
    private int _inputUsed;
    private bool _hasEnded;
    private byte[]? _spill;
    private int _spillStart;
    private int _spillEnd;
    private int _recordLeft;
    private int _headerHave;
    private int _headerLength;

    /// <summary>Output of the running call.</summary>
    internal CipherBlock? Output { get; set; }

    /// <summary>
    /// True if the end of the input was read: without a close_notify before it the data is truncated.
    /// </summary>
    internal bool EndWasRead { get; private set; }

    internal bool IsWaiting => _isWaiting;

    internal int InputUsed => _inputUsed;

    internal int InputLeft => _inputLength - _inputUsed;

    internal bool HasSpill => _spill is not null;

    /// <summary>Number of whole records returned so far.</summary>
    internal long Records { get; private set; }

    /// <summary>Called before each read: true makes the read fail. Null during the handshake.</summary>
    internal Func<bool>? Guard { get; set; }

    /// <summary>True after the handshake: one record per read, with the <see cref="Guard"/>.</summary>
    internal bool StepsByRecord { get; set; }

    public override bool CanRead => true;

    public override bool CanSeek => false;

    public override bool CanWrite => true;

    public override long Length => throw new NotSupportedException();

    public override long Position
    {
        get => throw new NotSupportedException();
        set => throw new NotSupportedException();
    }

    // ------------------------------------------------------------------ called by the layer

    internal void SetInput(byte* input, int length)
    {
        _input = input;
        _inputLength = length;
        _inputUsed = 0;
    }

    /// <summary>
    /// Completes the pending read, if there is data for it. Everything that follows from it happens before this
    /// returns.
    /// </summary>
    internal void Feed()
    {
        while (_isWaiting && (InputLeft > 0 || _hasEnded))
        {
            _isWaiting = false;
            Memory<byte> wanted = _wanted;
            _wanted = default;
            int count;
            try
            {
                count = Give(wanted.Span);
            }
            catch (IOException e)
            {
                _core.SetException(e);
                return;
            }

            _core.SetResult(count);
        }
    }

    internal void EndInput() => _hasEnded = true;

    /// <summary>Fails the pending read; later ones fail as well.</summary>
    internal void Fail()
    {
        _hasEnded = true;
        if (!_isWaiting) return;
        _isWaiting = false;
        _wanted = default;
        _core.SetException(new IOException("the connection has ended"));
    }

    /// <summary>Writes what did not fit into the last output. Returns true if nothing is left.</summary>
    internal bool DrainSpill(CipherBlock output)
    {
        if (_spill is null) return true;
        _spillStart += output.Write(_spill.AsSpan(_spillStart, _spillEnd - _spillStart));
        if (_spillStart < _spillEnd) return false;
        ArrayPool<byte>.Shared.Return(_spill);
        _spill = null;
        _spillStart = _spillEnd = 0;
        return true;
    }

    internal void Release()
    {
        if (_spill is not null) ArrayPool<byte>.Shared.Return(_spill);
        _spill = null;
    }

    // ------------------------------------------------------------------ called by SslStream

    public override ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default)
    {
        if (InputLeft > 0 || _hasEnded) return new ValueTask<int>(Give(buffer.Span));
        _core.Reset();
        _wanted = buffer;
        _isWaiting = true;
        return new ValueTask<int>(this, _core.Version);
    }

    public override ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default)
    {
        Put(buffer.Span);
        return default;
    }

    public override Task FlushAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public override void Flush()
    {
    }

    public override int Read(byte[] buffer, int offset, int count) => throw new NotSupportedException();

    public override void Write(byte[] buffer, int offset, int count) => Put(buffer.AsSpan(offset, count));

    public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();

    public override void SetLength(long value) => throw new NotSupportedException();

    int IValueTaskSource<int>.GetResult(short token) => _core.GetResult(token);

    ValueTaskSourceStatus IValueTaskSource<int>.GetStatus(short token) => _core.GetStatus(token);

    void IValueTaskSource<int>.OnCompleted(Action<object?> continuation, object? state, short token,
        ValueTaskSourceOnCompletedFlags flags) =>
        _core.OnCompleted(continuation, state, token, flags & ~ValueTaskSourceOnCompletedFlags.UseSchedulingContext);

    private int Give(Span<byte> wanted)
    {
        // A read of zero bytes waits for data; it is not an end.
        if (wanted.IsEmpty) return 0;
        if (StepsByRecord && _recordLeft == 0 && _headerHave == 0 && Guard is { } guard && guard())
            throw new IOException("too many records without content");
        int count = Math.Min(wanted.Length, InputLeft);
        if (count == 0)
        {
            EndWasRead = true;
            return 0;
        }

        ReadOnlySpan<byte> from = new(_input + _inputUsed, count);
        if (StepsByRecord) count = ToEndOfRecord(from);
        from[..count].CopyTo(wanted);
        _inputUsed += count;
        return count;
    }

    /// <summary>Returns how many of these bytes belong to the current record.</summary>
    private int ToEndOfRecord(ReadOnlySpan<byte> bytes)
    {
        int used = 0;
        if (_recordLeft == 0)
        {
            while (_headerHave < RecordHeader && used < bytes.Length)
            {
                byte b = bytes[used++];
                if (_headerHave == 3) _headerLength = b << 8;
                else if (_headerHave == 4) _headerLength |= b;
                _headerHave++;
            }

            if (_headerHave < RecordHeader) return used;
            _recordLeft = _headerLength;
        }

        int part = Math.Min(_recordLeft, bytes.Length - used);
        _recordLeft -= part;
        if (_recordLeft == 0)
        {
            _headerHave = 0;
            Records++;
        }

        return used + part;
    }

    private void Put(ReadOnlySpan<byte> bytes)
    {
        if (Output is { } output && _spill is null) bytes = bytes[output.Write(bytes)..];
        if (bytes.IsEmpty) return;
        int have = _spillEnd - _spillStart;
        if (_spill is null || _spill.Length - _spillEnd < bytes.Length)
        {
            byte[] larger = ArrayPool<byte>.Shared.Rent(have + bytes.Length);
            if (_spill is not null)
            {
                _spill.AsSpan(_spillStart, have).CopyTo(larger);
                ArrayPool<byte>.Shared.Return(_spill);
            }

            _spill = larger;
            _spillStart = 0;
            _spillEnd = have;
        }

        bytes.CopyTo(_spill.AsSpan(_spillEnd));
        _spillEnd += bytes.Length;
    }
}
