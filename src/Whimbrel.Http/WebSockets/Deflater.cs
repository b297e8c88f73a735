using System.Diagnostics;

namespace Whimbrel.Http.WebSockets;

/// <summary>Compresses messages (RFC 7692, 7.2.1), each alone or with recalled context. Not for two threads at once.
/// Its memory is unmanaged: it is disposed or finalized. Safe because the state is freed once, and buffers are pinned
/// for the call.</summary>
internal sealed unsafe class Deflater : IDisposable
{
    private const int TailBytes = 4; // 00 00 FF FF, the end of every flush

    [ThreadStatic]
    private static Deflater? t_spare;

    private readonly (int Level, int WindowBits, int MemoryLevel) _shape;
    private Zlib.Stream* _stream;

    /// <summary>Creates a compressor.</summary>
    /// <param name="level">1, the fastest, to 9.</param>
    /// <param name="windowBits">9 to 15.</param>
    /// <param name="memoryLevel">1 to 9: memory of the state besides the window, 1 KiB at 1, doubled with each
    /// step.</param>
    /// <exception cref="InsufficientMemoryException">zlib could not allocate memory.</exception>
    internal Deflater(int level, int windowBits, int memoryLevel)
    {
        _shape = (level, windowBits, memoryLevel);
        _stream = Zlib.NewStream();
        if (Zlib.DeflateInit(_stream, level, Zlib.Deflated, -windowBits, memoryLevel, Zlib.DefaultStrategy) == Zlib.Ok)
            return;
        Zlib.Free(ref _stream);
        throw new InsufficientMemoryException("zlib has no memory to compress with.");
    }

    ~Deflater() => Free();

    /// <summary>Returns a reset compressor: that of this thread if it fits. All connections share it.</summary>
    internal static Deflater Rent(int level, int windowBits, int memoryLevel)
    {
        if (t_spare is not { } spare || spare._shape != (level, windowBits, memoryLevel))
            return new Deflater(level, windowBits, memoryLevel);
        t_spare = null;
        return spare;
    }

    /// <summary>Takes one back after a whole message: for the next one of this thread, or to free it.</summary>
    internal static void Return(Deflater deflater)
    {
        if (t_spare is null) t_spare = deflater;
        else deflater.Dispose();
    }

    /// <summary>
    /// Sets the context of the next message: bytes that the peer has. They are compressed and the result is dropped,
    /// because .NET does not export zlib's call that sets a dictionary.
    /// </summary>
    /// <param name="before">End of the earlier messages; may be empty.</param>
    internal void Recall(ReadOnlySpan<byte> before)
    {
        if (before.IsEmpty) return;
        MessageBuffer dropped = default;
        Add(before, isLast: false, ref dropped);
        dropped.Release();
    }

    /// <summary>Compresses a piece of a message.</summary>
    /// <param name="source">Bytes; may be empty.</param>
    /// <param name="isLast">Whether the message ends with them; otherwise they are flushed, and the message
    /// continues.</param>
    /// <param name="target">Buffer to which the bytes are appended.</param>
    internal void Add(ReadOnlySpan<byte> source, bool isLast, ref MessageBuffer target)
    {
        ObjectDisposedException.ThrowIf(_stream is null, this);
        int before = target.Length;
        fixed (byte* from = source)
        {
            _stream->NextIn = from;
            _stream->AvailableIn = (uint)source.Length;
            do
            {
                Span<byte> room = target.Room(Math.Max(64, (int)_stream->AvailableIn / 2));
                fixed (byte* to = room)
                {
                    _stream->NextOut = to;
                    _stream->AvailableOut = (uint)room.Length;
                    int result = Zlib.Deflate(_stream, isLast ? Zlib.FullFlush : Zlib.SyncFlush);
                    Debug.Assert(result is Zlib.Ok or Zlib.BufferError, "it cannot fail with valid arguments");
                }

                target.Advance(room.Length - (int)_stream->AvailableOut);
            }
            while (_stream->AvailableOut == 0);
        }

        if (!isLast) return;
        if (target.Length == before) target.Append([0]); // a second flush writes nothing: an empty block
        else target.Cut(TailBytes);
    }

    public void Dispose()
    {
        Free();
        GC.SuppressFinalize(this);
    }

    private void Free()
    {
        if (_stream is null) return;
        _ = Zlib.DeflateEnd(_stream);
        Zlib.Free(ref _stream);
    }
}
