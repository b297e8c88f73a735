using System.Buffers;
using System.IO.Compression;
using Whimbrel.Http.WebSockets;

namespace Whimbrel.Http.Compression;

/// <summary>
/// Decodes the content coding of one body, and detects the end of the coding: with gzip and zlib the trailer. Its
/// checksum is compared. .NET's streams do not report it. Its memory is unmanaged: dispose it. Another thread may
/// decode during Dispose, because both take the gate. Safe because the state is freed once, under the gate, and buffers
/// are pinned for the call.
/// </summary>
internal sealed unsafe class BodyDecoder : IDisposable
{
    private const int ZlibWindowBits = 15;
    private const int GzipWindowBits = ZlibWindowBits + 16; // 16 selects gzip
    private const int BareWindowBits = -ZlibWindowBits; // negative: without head and trailer
    private const byte FirstOfGzip = 0x1F;

    private readonly Lock _gate = new();
    private readonly int _windowBits;
    private BrotliDecoder _brotli;
    private Zlib.Stream* _zlib;
    private bool _isOver; // later bytes do not belong to the coding
    private bool _isDisposed;

    /// <summary>Creates a decoder.</summary>
    /// <param name="coding"><c>br</c>, <c>deflate</c>, <c>gzip</c> or <c>x-gzip</c>.</param>
    /// <param name="first">First byte of the body. A body named deflate is usually zlib (low bits of the first byte:
    /// 8), and sometimes raw.</param>
    /// <exception cref="InsufficientMemoryException">zlib could not allocate memory.</exception>
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

    /// <summary>Whether the body may end here: the coding has ended, and no further bytes of it follow.</summary>
    internal bool IsWhole { get; private set; }

    /// <summary>Decodes until the source is consumed or the room is full.</summary>
    /// <param name="source">Next bytes of the body.</param>
    /// <param name="room">Buffer for the decoded bytes. Not empty.</param>
    /// <param name="taken">Number of source bytes consumed.</param>
    /// <returns>Number of bytes written; 0 if more of the body is needed.</returns>
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
        byte none = 0; // zlib needs an address also for an empty buffer
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
                else if (result == Zlib.BufferError) break; // needs more of the body
                else if (result != Zlib.Ok) throw Malformed();
            }

            taken = _isOver ? source.Length : source.Length - (int)_zlib->AvailableIn;
            return room.Length - (int)_zlib->AvailableOut;
        }
    }

    /// <summary>Begins another gzip member after the last one. Returns false if there is none.</summary>
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

    private static InvalidDataException Malformed() =>
        new("the bytes are not of this coding, or their checksum is wrong");

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
