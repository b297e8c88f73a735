using System.Buffers;
using System.Runtime.InteropServices;
using Whimbrel.Buffers;
using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>
/// A buffer in which serializers write one message of any length, before <see cref="Session.Send(in Outgoing)"/>
/// queues it completely: for Utf8JsonWriter, MessagePack and any user of <see cref="IBufferWriter{T}"/>. Create one for
/// each loop, thread or session and reuse it: messages then allocate nothing. Any thread, one at a time.
/// </summary>
/// <remarks>
/// The memory belongs to the writer, and to no session, until the send has succeeded. So a message may be written
/// across callbacks and awaits, with other sends in between; if the session ends or hands over, the result of the send
/// reports it. A message of up to 32 KiB is copied into the queue; of a longer one the queue takes the memory itself.
/// The first 32 KiB stay with the writer for the next message.
/// </remarks>
#pragma warning disable CA1001 // Disposing the window has no effect, because its memory belongs to the writer.
public sealed class MessageWriter : IBufferWriter<byte>
#pragma warning restore CA1001
{
    /// <summary>Minimum space for calls without a size hint.</summary>
    private const int LeastRoom = 256;

    /// <summary>Maximum size of a send queue.</summary>
    private const int MostBytes = 1 << 30;

    private readonly int _limit;
    private readonly Window _window;
    private WriterBlock? _first;
    private WriterBlock? _last;
    private long _before; // bytes in the blocks before the last one
    private int _lent; // space that may still be advanced over
    private bool _isSending;

    /// <summary>Creates an empty writer.</summary>
    /// <param name="limitBytes">Maximum message length, 1 byte to 1 GiB; writing more throws. Default 64 MiB.</param>
    /// <exception cref="ArgumentOutOfRangeException">The limit is not between 1 and 1 GiB.</exception>
    public MessageWriter(int limitBytes = 64 * 1024 * 1024)
    {
        if (limitBytes is < 1 or > MostBytes) Throw.OutOfRange(nameof(limitBytes), limitBytes, "between 1 and 1 GiB");
        _limit = limitBytes;
        _window = new Window(this);
    }

    /// <summary>Number of bytes written so far.</summary>
    public int Length => (int)_before + (_last?.Length ?? 0);

    /// <summary>
    /// The message so far, for other readers; <see cref="Outgoing.Written"/> sends it. Valid until the next use of the
    /// writer.
    /// </summary>
    public ReadOnlySequence<byte> Written
    {
        get
        {
            if (_last is not { } last) return default;
            long index = 0;
            for (WriterBlock? block = _first; block is not null; block = block.NextBlock)
            {
                block.SetPlace(index);
                index += block.Length;
            }

            return new ReadOnlySequence<byte>(_first!, 0, last, last.Length);
        }
    }

    /// <inheritdoc/>
    /// <exception cref="ArgumentOutOfRangeException">The count is negative, or larger than the last returned span or
    /// memory.</exception>
    public void Advance(int count)
    {
        if ((uint)count > (uint)_lent)
            Throw.OutOfRange(nameof(count), count, $"between 0 and the {_lent} bytes of the last GetMemory or GetSpan");
        if (count == 0) return;
        _lent -= count;
        _last!.Length += count;
    }

    /// <summary>
    /// Returns memory after the written bytes. It is bound to the writer: after the message was sent or cleared, using
    /// it throws <see cref="InvalidOperationException"/> until the next call. While it is pinned,
    /// <see cref="Session.Send(in Outgoing)"/> and <see cref="Clear"/> throw instead of releasing it.
    /// </summary>
    /// <param name="sizeHint">Minimum number of bytes; 0 for any.</param>
    /// <exception cref="InvalidOperationException">The message would be longer than the limit of the
    /// writer.</exception>
    public Memory<byte> GetMemory(int sizeHint = 0)
    {
        WriterBlock block = Room(sizeHint);
        _window.IsOpen = true;
        return _window.Slice(block.Length, _lent);
    }

    /// <summary>
    /// Returns a span after the written bytes. Valid until the next call on the writer and until the message is sent;
    /// writing to it later is not detected.
    /// </summary>
    /// <param name="sizeHint">Minimum number of bytes; 0 for any.</param>
    /// <exception cref="InvalidOperationException">The message would be longer than the limit of the
    /// writer.</exception>
    public Span<byte> GetSpan(int sizeHint = 0)
    {
        WriterBlock block = Room(sizeHint);
        return block.Bytes.AsSpan(block.Length, _lent);
    }

    /// <summary>Discards the written bytes.</summary>
    /// <exception cref="InvalidOperationException">Memory of <see cref="GetMemory"/> is pinned, for example by a
    /// pending read; or the writer is being sent.</exception>
    public void Clear()
    {
        CheckIdle();
        Empty();
    }

    // ------------------------------------------------------------------ for the send

    /// <summary>True if the message is in one block, or empty.</summary>
    internal bool IsInOneBlock => ReferenceEquals(_first, _last) && _last is not { IsRented: true };

    internal ReadOnlySpan<byte> WrittenInOneBlock => _last is { } block ? block.Written : default;

    /// <summary>Locks the writer until <see cref="EndSend"/>, also for callbacks of the send.</summary>
    internal void BeginSend()
    {
        CheckIdle();
        _isSending = true;
    }

    /// <summary>
    /// The blocks of the message. The writer keeps them unless <see cref="EndSend"/> is called with tookBlocks.
    /// </summary>
    internal WriterBlock Blocks
    {
        get
        {
            // A block was requested and nothing was written into it.
            if (_last is { Length: 0 } && !ReferenceEquals(_first, _last)) DropLast();
            return _first!;
        }
    }

    internal void EndSend(SendResult result, bool tookBlocks)
    {
        _isSending = false;
        if (result != SendResult.Queued) return;
        if (tookBlocks) _first = _last = null;
        Empty();
    }

    // ------------------------------------------------------------------ blocks

    private WriterBlock Room(int sizeHint)
    {
        if (sizeHint < 0) Throw.OutOfRange(nameof(sizeHint), sizeHint, "0 or more");
        if (_isSending) ThrowSending();
        int least = Math.Max(sizeHint, 1);
        int left = _limit - Length;
        if (least > left)
            Throw.State($"The message is longer than the limit of its writer: {Length} bytes are written, {least} more "
                + $"are wanted, and the limit is {_limit}. Nothing is lost: send or clear what there is, or give the "
                + $"writer a higher limit.");
        WriterBlock? block = _last;
        // The rest of a block is used up first, unless it is very small and the caller gave no size.
        if (block is null || block.Bytes.Length - block.Length < (sizeHint == 0 ? Math.Min(LeastRoom, left) : least))
            block = AddBlock(least);
        _lent = Math.Min(block.Bytes.Length - block.Length, left);
        return block;
    }

    private WriterBlock AddBlock(int least)
    {
        // Pinned memory stays where it is written: only an empty block would be returned here.
        if (_last is { Length: 0 }) DropLast();
        WriterBlock block = WriterBlocks.Take(least);
        if (_last is { } last)
        {
            last.NextBlock = block;
            _before += last.Length;
        }
        else
        {
            _first = block;
        }

        return _last = block;
    }

    private void DropLast()
    {
        if (_window.Pins > 0) ThrowPinned();
        WriterBlock last = _last!;
        WriterBlock? previous = null;
        for (WriterBlock? b = _first; !ReferenceEquals(b, last); b = b!.NextBlock) previous = b;
        _lent = 0;
        _last = previous;
        if (previous is null)
        {
            _first = null;
        }
        else
        {
            previous.NextBlock = null;
            _before -= previous.Length;
        }

        WriterBlocks.Return(last);
    }

    /// <summary>Keeps one block for the next message.</summary>
    private void Empty()
    {
        _window.IsOpen = false;
        _lent = 0;
        _before = 0;
        if (_first is { } first)
        {
            WriterBlock? rest = first;
            if (!first.IsRented)
            {
                rest = first.NextBlock;
                first.NextBlock = null;
                first.Length = 0;
            }
            else
            {
                _first = null;
            }

            WriterBlocks.Return(rest);
        }

        _last = _first;
    }

    private void CheckIdle()
    {
        if (_isSending) ThrowSending();
        if (_window.Pins > 0) ThrowPinned();
    }

    private static void ThrowSending() =>
        Throw.State("The message is being sent: OnSending, or another thread, may not use its writer meanwhile.");

    private static void ThrowPinned() => Throw.State(
        "The memory of GetMemory is pinned, for example by a pending read. Send or clear when that has ended.");

    /// <summary>
    /// The memory that GetMemory returns. Each use looks the block up, so it never reaches memory that was passed on.
    /// </summary>
    // Safe: a pointer refers to a block of this writer, which is pinned and stays with the writer until Unpin.
    private sealed unsafe class Window(MessageWriter writer) : MemoryManager<byte>
    {
        private int _pins;

        internal bool IsOpen { get; set; }

        internal int Pins => Volatile.Read(ref _pins);

        internal Memory<byte> Slice(int start, int length) => CreateMemory(start, length);

        public override Span<byte> GetSpan()
        {
            CheckOpen();
            return writer._last!.Bytes;
        }

        public override Memory<byte> Memory => CreateMemory(GetSpan().Length);

        public override MemoryHandle Pin(int elementIndex = 0)
        {
            CheckOpen();
            byte[] bytes = writer._last!.Bytes;
            if ((uint)elementIndex > (uint)bytes.Length)
                Throw.OutOfRange(nameof(elementIndex), elementIndex, $"between 0 and {bytes.Length}");
            GCHandle pin = GCHandle.Alloc(bytes, GCHandleType.Pinned);
            Interlocked.Increment(ref _pins);
            return new MemoryHandle((byte*)pin.AddrOfPinnedObject() + elementIndex, pin, this);
        }

        /// <summary>May be called on any thread, where an operation ends.</summary>
        public override void Unpin() => Interlocked.Decrement(ref _pins);

        protected override void Dispose(bool disposing)
        {
        }

        private void CheckOpen()
        {
            if (!IsOpen)
                Throw.State(
                    "The message was sent or cleared: memory of GetMemory from before cannot be used any more.");
        }
    }
}
