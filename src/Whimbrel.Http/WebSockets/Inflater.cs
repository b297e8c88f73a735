namespace Whimbrel.Http.WebSockets;

/// <summary>Takes the compression from messages, one after the other (RFC 7692, 7.2.2). Not for two threads at once. Its memory is outside of the collector's: it is disposed, or at last finalised. Safe because the state is freed once, and buffers are pinned for the call.</summary>
internal sealed unsafe class Inflater : IDisposable
{
    [ThreadStatic]
    private static Inflater? t_spare;

    private readonly int _windowBits;
    private readonly bool _forgets;
    private Zlib.Stream* _stream;

    /// <summary>Makes one.</summary>
    /// <param name="windowBits">8 to 15: the largest window that the peer may use.</param>
    /// <param name="forgets">Each message begins without what was before it.</param>
    /// <exception cref="InsufficientMemoryException">zlib got none.</exception>
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

    /// <summary>One that begins anew: that of this thread, where it fits. Messages that need nothing of each other share it.</summary>
    internal static Inflater Rent(int windowBits, bool forgets)
    {
        if (!forgets || t_spare is not { } spare || spare._windowBits != -windowBits) return new Inflater(windowBits, forgets);
        t_spare = null;
        return spare;
    }

    /// <summary>Gives it back: for the next message of this thread, or to the system.</summary>
    internal static void Return(Inflater inflater)
    {
        if (inflater._forgets && t_spare is null && Zlib.InflateReset(inflater._stream, inflater._windowBits) == Zlib.Ok) t_spare = inflater;
        else inflater.Dispose();
    }

    // What a sender leaves out at the end of a message, and a byte that is none of it. Asked to stop where a block ends, zlib does not touch
    // that byte; behind a message that was cut inside a block it takes it for the rest, or makes text of the bytes in front of it.
    private static ReadOnlySpan<byte> TailAndOneMore => [0x00, 0x00, 0xFF, 0xFF, 0x00];

    /// <summary>Reads on in a message.</summary>
    /// <param name="source">A piece of it.</param>
    /// <param name="isLast">The message ends with it.</param>
    /// <param name="target">Where the bytes go, behind what is there.</param>
    /// <param name="mostBytes">How long the target may become.</param>
    /// <returns>What is wrong with it: <see cref="Outcome.Fine"/> when nothing is.</returns>
    internal Outcome Add(ReadOnlySpan<byte> source, bool isLast, ref MessageBuffer target, int mostBytes)
    {
        Outcome outcome = Run(source, 0, ref target, mostBytes);
        if (!isLast || outcome != Outcome.Fine) return outcome;
        int length = target.Length;
        outcome = Run(TailAndOneMore, 1, ref target, mostBytes);
        if (outcome == Outcome.Fine && target.Length != length) return Outcome.Malformed;
        return outcome == Outcome.Fine && _forgets && Zlib.InflateReset(_stream, _windowBits) != Zlib.Ok ? Outcome.Malformed : outcome;
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

    /// <summary>How it went.</summary>
    internal enum Outcome
    {
        Fine,
        Malformed,
        TooLarge,
    }

    // Where bytes must stay behind, so many at the end of the source, it stops at each border of blocks, and the last border must be in front of them.
    private Outcome Run(ReadOnlySpan<byte> source, uint staysBehind, ref MessageBuffer target, int mostBytes)
    {
        ObjectDisposedException.ThrowIf(_stream is null, this);
        fixed (byte* from = source)
        {
            _stream->NextIn = from;
            _stream->AvailableIn = (uint)source.Length;
            while (true)
            {
                // One byte more than is allowed: so a message of just the limit is told from a larger one.
                int most = mostBytes - target.Length + 1;
                if (most <= 0) return Outcome.TooLarge;
                Span<byte> room = target.Room(Math.Min(most, (int)Math.Clamp(_stream->AvailableIn * 4L, 256, 64 * 1024)));
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
                // A sender may end its DEFLATE data with a message. What follows begins anew.
                if (result == Zlib.StreamEnd && Zlib.InflateReset(_stream, _windowBits) != Zlib.Ok) return Outcome.Malformed;
                if (result is not (Zlib.Ok or Zlib.StreamEnd or Zlib.BufferError)) return Outcome.Malformed;
                // Room that was left over says that there is nothing more to write.
                if (_stream->AvailableIn <= staysBehind && _stream->AvailableOut > 0) return _stream->AvailableIn == staysBehind ? Outcome.Fine : Outcome.Malformed;
                if (result == Zlib.BufferError && _stream->AvailableOut > 0) return Outcome.Malformed;
            }
        }
    }
}
