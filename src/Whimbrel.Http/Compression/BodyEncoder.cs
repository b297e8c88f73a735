using System.Buffers;
using System.Diagnostics;
using System.IO.Compression;
using Whimbrel.Http.Parsing;
using Whimbrel.Http.WebSockets;

namespace Whimbrel.Http.Compression;

/// <summary>
/// Compresses one body as it is written, into the caller's memory. Its memory is unmanaged: dispose it; the finalizer
/// frees that of an abandoned one. Not for two threads at once. Safe because the state is freed once, and buffers are
/// pinned for the call.
/// </summary>
internal sealed unsafe class BodyEncoder : IDisposable
{
    private const int WindowBits = 18; // of brotli: 256 KiB, so that a response in pieces needs about 1 MiB and not ten
    private const int GzipWindowBits = 15 + 16; // 16 selects gzip
    private const int GzipMemoryLevel = 8;

    private readonly HttpCompression? _counted;
    private readonly HttpCoding _coding;
    private BrotliEncoder _brotli;
    private Zlib.Stream* _zlib;
    private bool _isDisposed;

    private BodyEncoder(HttpCoding coding, HttpCompression? counted)
    {
        _coding = coding;
        _counted = counted;
    }

    ~BodyEncoder() => Free();

    /// <summary>Creates an encoder for a response in pieces; null at the limit of encoders, or without
    /// memory.</summary>
    /// <param name="coding">Gzip or brotli.</param>
    /// <param name="options">Levels, and counter of encoders.</param>
    internal static BodyEncoder? TryMake(HttpCoding coding, HttpCompression options)
    {
        if (!options.TryEnter()) return null;
        BodyEncoder encoder = new(coding, options);
        if (encoder.TryOpen(options)) return encoder;
        encoder.Dispose();
        return null;
    }

    /// <summary>Compresses a whole body. Returns 0 if the room is too small (<see cref="RoomFor"/> is enough), or
    /// without memory.</summary>
    internal static int Encode(HttpCoding coding, HttpCompression options, ReadOnlySpan<byte> body, Span<byte> room)
    {
        int written;
        if (coding == HttpCoding.Brotli)
            return BrotliEncoder.TryCompress(body, room, out written, options.BrotliLevel, WindowBits) ? written : 0;
        using BodyEncoder encoder = new(coding, null);
        return encoder.TryOpen(options) && encoder.Encode(body, room, EncoderStep.Finish, out _, out written)
            ? written
            : 0;
    }

    private bool TryOpen(HttpCompression options)
    {
        if (_coding == HttpCoding.Brotli)
        {
            _brotli = new BrotliEncoder(options.BrotliLevel, WindowBits);
            return true;
        }

        _zlib = Zlib.NewStream();
        if (Zlib.DeflateInit(_zlib, options.GzipLevel, Zlib.Deflated,
            GzipWindowBits, GzipMemoryLevel, Zlib.DefaultStrategy) == Zlib.Ok)
            return true;
        Zlib.Free(ref _zlib);
        return false;
    }

    /// <summary>Returns the largest compressed size of a body: an incompressible one gets slightly larger.</summary>
    internal static int RoomFor(int length) => length + length / 8 + 128;

    /// <summary>Compresses. Returns true if the step is complete, false if the room was full: call again with the rest
    /// and the same step.</summary>
    /// <param name="source">Bytes to compress.</param>
    /// <param name="room">Buffer for the compressed bytes.</param>
    /// <param name="step">Action after all bytes are consumed.</param>
    /// <param name="taken">Number of source bytes consumed.</param>
    /// <param name="written">Number of bytes written.</param>
    internal bool Encode(ReadOnlySpan<byte> source, Span<byte> room, EncoderStep step, out int taken, out int written)
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        return _coding == HttpCoding.Brotli
            ? EncodeBrotli(source, room, step, out taken, out written)
            : EncodeGzip(source, room, step, out taken, out written);
    }

    private bool EncodeBrotli(ReadOnlySpan<byte> source, Span<byte> room, EncoderStep step, out int taken,
        out int written)
    {
        OperationStatus status = _brotli.Compress(source, room, out taken, out written,
            isFinalBlock: step == EncoderStep.Finish);
        Debug.Assert(status is OperationStatus.Done or OperationStatus.DestinationTooSmall,
            "it cannot fail with valid arguments");
        if (status != OperationStatus.Done || step != EncoderStep.Flush) return status == OperationStatus.Done;
        status = _brotli.Flush(room[written..], out int flushed);
        written += flushed;
        return status == OperationStatus.Done;
    }

    private bool EncodeGzip(ReadOnlySpan<byte> source, Span<byte> room, EncoderStep step, out int taken,
        out int written)
    {
        int result;
        fixed (byte* from = source, to = room)
        {
            byte none = 0; // zlib needs an address also for an empty buffer
            _zlib->NextIn = from == null ? &none : from;
            _zlib->AvailableIn = (uint)source.Length;
            _zlib->NextOut = to == null ? &none : to;
            _zlib->AvailableOut = (uint)room.Length;
            result = Zlib.Deflate(_zlib, step switch
            {
                EncoderStep.Take => Zlib.NoFlush,
                EncoderStep.Flush => Zlib.SyncFlush,
                _ => Zlib.Finish
            });
            Debug.Assert(result is Zlib.Ok or Zlib.StreamEnd or Zlib.BufferError,
                "it cannot fail with valid arguments");
            taken = source.Length - (int)_zlib->AvailableIn;
            written = room.Length - (int)_zlib->AvailableOut;
        }

        return step switch
        {
            EncoderStep.Take => taken == source.Length,
            EncoderStep.Flush => taken == source.Length && written < room.Length, // with room left, all is written
            _ => result == Zlib.StreamEnd,
        };
    }

    public void Dispose()
    {
        if (_isDisposed) return;
        _brotli.Dispose();
        Free();
        GC.SuppressFinalize(this);
    }

    private void Free()
    {
        if (_isDisposed) return;
        _isDisposed = true;
        _counted?.Leave();
        if (_zlib is null) return;
        _ = Zlib.DeflateEnd(_zlib);
        Zlib.Free(ref _zlib);
    }
}
