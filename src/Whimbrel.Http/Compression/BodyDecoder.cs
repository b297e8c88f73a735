using System.Buffers;
using System.IO.Compression;
using Whimbrel.Http.WebSockets;

namespace Whimbrel.Http.Compression;

/// <summary>
/// Takes a content coding from one body, and knows whether the end of the coding has come: with gzip and zlib that is the end of the trailer, whose
/// checksum was compared. The streams of .NET do not report it. Its memory is outside of the collector's: dispose it. It may be disposed
/// while another thread decodes, because both take the gate. Safe because the state is freed once, under the gate, and buffers are pinned for the call.
/// </summary>
internal sealed unsafe class BodyDecoder : IDisposable
{
    private const int ZlibWindowBits = 15;
    private const int GzipWindowBits = ZlibWindowBits + 16; // 16 says gzip
    private const int BareWindowBits = -ZlibWindowBits; // negative: without head and trailer
    private const byte FirstOfGzip = 0x1F;

    private readonly Lock _gate = new();
    private readonly int _windowBits;
    private BrotliDecoder _brotli;
    private Zlib.Stream* _zlib;
    private bool _isOver; // what follows is not of the coding
    private bool _isDisposed;

    /// <summary>Makes one.</summary>
    /// <param name="coding"><c>br</c>, <c>deflate</c>, <c>gzip</c> or <c>x-gzip</c>.</param>
    /// <param name="first">First byte of the body. What is called deflate is mostly zlib, whose first byte ends in 8, and sometimes bare.</param>
    /// <exception cref="InsufficientMemoryException">zlib got none.</exception>
    internal BodyDecoder(string coding, byte first)
    {
        if (coding == "br") return;
        _windowBits = coding != "deflate" ? GzipWindowBits : (first & 0x0F) == 8 ? ZlibWindowBits : BareWindowBits;
        _zlib = Zlib.NewStream();
        if (Zlib.InflateInit(_zlib, _windowBits) == Zlib.Ok) return;
        Zlib.Free(ref _zlib);
        throw new InsufficientMemoryException("zlib has no memory for a window.");
    }

    ~BodyDecoder() => Free();

    /// <summary>The body may end here: the coding has, and nothing follows that belongs to it.</summary>
    internal bool IsWhole { get; private set; }

    /// <summary>Decodes until the source is taken or the room is full.</summary>
    /// <param name="source">The next bytes of the body.</param>
    /// <param name="room">Receives what they stand for. Not empty.</param>
    /// <param name="taken">Number of bytes of the source that are done.</param>
    /// <returns>Number of bytes written. 0: it needs more of the body.</returns>
    /// <exception cref="InvalidDataException">The bytes are not of the coding, or a checksum is wrong.</exception>
    internal int Decode(ReadOnlySpan<byte> source, Span<byte> room, out int taken)
    {
        lock (_gate)
        {
            ObjectDisposedException.ThrowIf(_isDisposed, typeof(HttpClientResponse));
            return _windowBits == 0 ? DecodeBrotli(source, room, out taken) : DecodeZlib(source, room, out taken);
        }
    }

    private int DecodeBrotli(ReadOnlySpan<byte> source, Span<byte> room, out int taken)
    {
        taken = source.Length;
        if (IsWhole) return 0;
        OperationStatus status = _brotli.Decompress(source, room, out taken, out int written);
        if (status == OperationStatus.InvalidData) throw Malformed();
        IsWhole = status == OperationStatus.Done;
        return written;
    }

    private int DecodeZlib(ReadOnlySpan<byte> source, Span<byte> room, out int taken)
    {
        byte none = 0; // zlib wants an address also for nothing
        fixed (byte* from = source, to = room)
        {
            _zlib->NextIn = from == null ? &none : from;
            _zlib->AvailableIn = (uint)source.Length;
            _zlib->NextOut = to;
            _zlib->AvailableOut = (uint)room.Length;
            while (_zlib->AvailableOut > 0 && TryBeginMember())
            {
                int result = Zlib.Inflate(_zlib, Zlib.NoFlush);
                if (result == Zlib.StreamEnd) IsWhole = true;
                else if (result == Zlib.BufferError) break; // it needs more of the body
                else if (result != Zlib.Ok) throw Malformed();
            }

            taken = _isOver ? source.Length : source.Length - (int)_zlib->AvailableIn;
            return room.Length - (int)_zlib->AvailableOut;
        }
    }

    /// <summary>Another gzip member may follow the last one. False: no byte of one is there.</summary>
    private bool TryBeginMember()
    {
        if (!IsWhole) return true;
        if (_isOver || _zlib->AvailableIn == 0) return false;
        // Padding after the last trailer has no meaning, and is skipped.
        _isOver = _windowBits != GzipWindowBits || *_zlib->NextIn != FirstOfGzip;
        if (_isOver) return false;
        if (Zlib.InflateReset(_zlib, _windowBits) != Zlib.Ok) throw Malformed();
        IsWhole = false;
        return true;
    }

    private static InvalidDataException Malformed() => new("the bytes are not of this coding, or their checksum is wrong");

    public void Dispose()
    {
        lock (_gate)
        {
            _brotli.Dispose();
            Free();
        }

        GC.SuppressFinalize(this);
    }

    private void Free()
    {
        _isDisposed = true;
        if (_zlib is null) return;
        _ = Zlib.InflateEnd(_zlib);
        Zlib.Free(ref _zlib);
    }
}
