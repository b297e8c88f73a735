namespace Whimbrel.Http.WebSockets;

/// <summary>Decompresses messages, one after the other (RFC 7692, 7.2.2). Not for two threads at once. Its memory is
/// unmanaged: it is disposed or finalized. Safe because the state is freed once, and buffers are pinned for the
/// call.</summary>
internal sealed unsafe class Inflater : IDisposable
{
    [ThreadStatic]
    private static Inflater? t_spare;

    private readonly int _windowBits;
    private readonly bool _forgets;
    private Zlib.Stream* _stream;

    /// <summary>Creates a decompressor.</summary>
    /// <param name="windowBits">8 to 15: the largest window of the peer.</param>
    /// <param name="forgets">Whether each message has no context of earlier ones.</param>
    /// <exception cref="InsufficientMemoryException">zlib could not allocate memory.</exception>
    internal Inflater(int windowBits, bool forgets)
    {
        _windowBits = -windowBits; // negative: without head and checksum
        _forgets = forgets;
        _stream = Zlib.NewStream();
        if (Zlib.InflateInit(_stream, _windowBits) == Zlib.Ok) return;
        Zlib.Free(ref _stream);
        throw new InsufficientMemoryException("zlib has no memory for a window.");
    }

    ~Inflater() => Free();

    /// <summary>Returns a reset decompressor: that of this thread if it fits. Messages without context share
    /// it.</summary>
    internal static Inflater Rent(int windowBits, bool forgets)
    {
        if (!forgets || t_spare is not { } spare || spare._windowBits != -windowBits)
            return new Inflater(windowBits, forgets);
        t_spare = null;
        return spare;
    }

    /// <summary>Takes one back: for the next message of this thread, or to free it.</summary>
    internal static void Return(Inflater inflater)
    {
        if (inflater._forgets && t_spare is null
            && Zlib.InflateReset(inflater._stream, inflater._windowBits) == Zlib.Ok)
            t_spare = inflater;
        else inflater.Dispose();
    }

    // Bytes that a sender omits at the end of a message, and one more byte. If zlib stops at the end of a block, it
    // leaves that byte. After a message that was cut inside a block, zlib consumes it as the rest, or decodes the bytes
    // before it as data.
    private static ReadOnlySpan<byte> TailAndOneMore => [0x00, 0x00, 0xFF, 0xFF, 0x00];

    /// <summary>Decompresses a piece of a message.</summary>
    /// <param name="source">Piece of the message.</param>
    /// <param name="isLast">Whether the message ends with it.</param>
    /// <param name="target">Buffer to which the bytes are appended.</param>
    /// <param name="mostBytes">Largest length of the target.</param>
    /// <returns>Error, or <see cref="Outcome.Fine"/>.</returns>
    internal Outcome Add(ReadOnlySpan<byte> source, bool isLast, ref MessageBuffer target, int mostBytes)
    {
        Outcome outcome = Run(source, 0, ref target, mostBytes);
        if (!isLast || outcome != Outcome.Fine) return outcome;
        int length = target.Length;
        outcome = Run(TailAndOneMore, 1, ref target, mostBytes);
        if (outcome == Outcome.Fine && target.Length != length) return Outcome.Malformed;
        return outcome == Outcome.Fine && _forgets && Zlib.InflateReset(_stream, _windowBits) != Zlib.Ok
            ? Outcome.Malformed
            : outcome;
    }

    public void Dispose()
    {
        Free();
        GC.SuppressFinalize(this);
    }

    private void Free()
    {
        if (_stream is null) return;
        _ = Zlib.InflateEnd(_stream);
        Zlib.Free(ref _stream);
    }

    /// <summary>Result of a piece.</summary>
    internal enum Outcome
    {
        Fine,
        Malformed,
        TooLarge,
    }

    // If bytes must be left at the end of the source, it stops at each block border, and the last border must be before
    // them.
    private Outcome Run(ReadOnlySpan<byte> source, uint staysBehind, ref MessageBuffer target, int mostBytes)
    {
        ObjectDisposedException.ThrowIf(_stream is null, this);
        fixed (byte* from = source)
        {
            _stream->NextIn = from;
            _stream->AvailableIn = (uint)source.Length;
            while (true)
            {
                // One byte more than allowed, to distinguish a message at the limit from a larger one.
                int most = mostBytes - target.Length + 1;
                if (most <= 0) return Outcome.TooLarge;
                Span<byte> room =
                    target.Room(Math.Min(most, (int)Math.Clamp(_stream->AvailableIn * 4L, 256, 64 * 1024)));
                if (room.Length > most) room = room[..most];
                int result;
                fixed (byte* to = room)
                {
                    _stream->NextOut = to;
                    _stream->AvailableOut = (uint)room.Length;
                    result = Zlib.Inflate(_stream, staysBehind > 0 ? Zlib.Block : Zlib.SyncFlush);
                }

                target.Advance(room.Length - (int)_stream->AvailableOut);
                if (target.Length > mostBytes) return Outcome.TooLarge;
                // A sender may end its DEFLATE data with a message. The next data begins a new stream.
                if (result == Zlib.StreamEnd && Zlib.InflateReset(_stream, _windowBits) != Zlib.Ok)
                    return Outcome.Malformed;
                if (result is not (Zlib.Ok or Zlib.StreamEnd or Zlib.BufferError)) return Outcome.Malformed;
                // Unused room means that there is no more output.
                if (_stream->AvailableIn <= staysBehind && _stream->AvailableOut > 0)
                    return _stream->AvailableIn == staysBehind ? Outcome.Fine : Outcome.Malformed;
                if (result == Zlib.BufferError && _stream->AvailableOut > 0) return Outcome.Malformed;
            }
        }
    }
}
