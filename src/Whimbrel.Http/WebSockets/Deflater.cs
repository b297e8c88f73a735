using System.Diagnostics;

namespace Whimbrel.Http.WebSockets;

/// <summary>Compresses messages (RFC 7692, 7.2.1), each by itself or behind what it is told to recall. Not for two threads at once. Its memory is outside of the collector's: it is disposed, or at last finalised. Safe because the state is freed once, and buffers are pinned for the call.</summary>
internal sealed unsafe class Deflater : IDisposable
{
    private const int TailBytes = 4; // 00 00 FF FF, which every flush ends in

    [ThreadStatic]
    private static Deflater? t_spare;

    private readonly (int Level, int WindowBits, int MemoryLevel) _shape;
    private Zlib.Stream* _stream;

    /// <summary>Makes one.</summary>
    /// <param name="level">1, the fastest, to 9.</param>
    /// <param name="windowBits">9 to 15.</param>
    /// <param name="memoryLevel">1 to 9: 2 to its power, in KiB at 1, is what it has for the state besides the window.</param>
    /// <exception cref="InsufficientMemoryException">zlib got none.</exception>
    internal Deflater(int level, int windowBits, int memoryLevel)
    {
        _shape = (level, windowBits, memoryLevel);
        _stream = Zlib.NewStream();
        if (Zlib.DeflateInit(_stream, level, Zlib.Deflated, -windowBits, memoryLevel, Zlib.DefaultStrategy) == Zlib.Ok) return;
        Zlib.Free(ref _stream);
        throw new InsufficientMemoryException("zlib has no memory to compress with.");
    }

    ~Deflater() => Free();

    /// <summary>One that begins anew: that of this thread, where it fits. All connections share it.</summary>
    internal static Deflater Rent(int level, int windowBits, int memoryLevel)
    {
        if (t_spare is not { } spare || spare._shape != (level, windowBits, memoryLevel)) return new Deflater(level, windowBits, memoryLevel);
        t_spare = null;
        return spare;
    }

    /// <summary>Gives one back behind a whole message: for the next one of this thread, or to the system.</summary>
    internal static void Return(Deflater deflater)
    {
        if (t_spare is null) t_spare = deflater;
        else deflater.Dispose();
    }

    /// <summary>
    /// The message that follows may point back to these bytes, which its reader has. They are compressed, and what comes of it is dropped: zlib has a way to set a dictionary, and .NET does not carry it.
    /// </summary>
    /// <param name="before">The end of the messages before; may be empty.</param>
    internal void Recall(ReadOnlySpan<byte> before)
    {
        if (before.IsEmpty) return;
        MessageBuffer dropped = default;
        Add(before, isLast: false, ref dropped);
        dropped.Release();
    }

    /// <summary>Compresses a piece of a message.</summary>
    /// <param name="source">May be empty.</param>
    /// <param name="isLast">The message ends with it; else what was given is written out as well, and the message goes on.</param>
    /// <param name="target">Where the bytes go, behind what is there.</param>
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
        if (target.Length == before) target.Append([0]); // zlib writes nothing for a flush behind a flush: an empty block without its tail
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
