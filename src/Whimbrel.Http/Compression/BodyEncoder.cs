using System.Buffers;
using System.Diagnostics;
using System.IO.Compression;
using Whimbrel.Http.Parsing;
using Whimbrel.Http.WebSockets;

namespace Whimbrel.Http.Compression;

/// <summary>
/// Compresses one body as it is written, into the caller's memory. What it keeps is outside of the collector's memory: dispose it; one that is
/// forgotten, because its answer was, gives it back when it is collected. Not for two threads at once. Safe because the state is freed once, and
/// buffers are pinned for the call.
/// </summary>
internal sealed unsafe class BodyEncoder : IDisposable
{
    private const int WindowBits = 18; // of brotli: 256 KiB, so that an answer in pieces costs about 1 MiB and not ten
    private const int GzipWindowBits = 15 + 16; // 16 says gzip
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

    /// <summary>One for an answer in pieces; null when as many as may are at work, or there is no memory.</summary>
    /// <param name="coding">Gzip or brotli.</param>
    /// <param name="options">Its levels, and where it is counted.</param>
    internal static BodyEncoder? TryMake(HttpCoding coding, HttpCompression options)
    {
        if (!options.TryEnter()) return null;
        BodyEncoder encoder = new(coding, options);
        if (encoder.TryOpen(options)) return encoder;
        encoder.Dispose();
        return null;
    }

    /// <summary>Compresses a whole body. 0: there is not enough room, which <see cref="RoomFor"/> is, or no memory.</summary>
    internal static int Encode(HttpCoding coding, HttpCompression options, ReadOnlySpan<byte> body, Span<byte> room)
    {
        int written;
        if (coding == HttpCoding.Brotli) return BrotliEncoder.TryCompress(body, room, out written, options.BrotliLevel, WindowBits) ? written : 0;
        using BodyEncoder encoder = new(coding, null);
        return encoder.TryOpen(options) && encoder.Encode(body, room, EncoderStep.Finish, out _, out written) ? written : 0;
    }

    private bool TryOpen(HttpCompression options)
    {
        if (_coding == HttpCoding.Brotli)
        {
            _brotli = new BrotliEncoder(options.BrotliLevel, WindowBits);
            return true;
        }

        _zlib = Zlib.NewStream();
        if (Zlib.DeflateInit(_zlib, options.GzipLevel, Zlib.Deflated, GzipWindowBits, GzipMemoryLevel, Zlib.DefaultStrategy) == Zlib.Ok) return true;
        Zlib.Free(ref _zlib);
        return false;
    }

    /// <summary>What the compressed form of a body has at most: one that does not get smaller gets a little larger.</summary>
    internal static int RoomFor(int length) => length + length / 8 + 128;

    /// <summary>Goes on. True: the step is done; false: there was no room for all of it, so come again with the rest and the same step.</summary>
    /// <param name="source">What is to be compressed.</param>
    /// <param name="room">Where it goes.</param>
    /// <param name="step">What is to be done when it has been taken.</param>
    /// <param name="taken">How much of the source was taken.</param>
    /// <param name="written">How much was written.</param>
    internal bool Encode(ReadOnlySpan<byte> source, Span<byte> room, EncoderStep step, out int taken, out int written)
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        return _coding == HttpCoding.Brotli ? EncodeBrotli(source, room, step, out taken, out written) : EncodeGzip(source, room, step, out taken, out written);
    }

    private bool EncodeBrotli(ReadOnlySpan<byte> source, Span<byte> room, EncoderStep step, out int taken, out int written)
    {
        OperationStatus status = _brotli.Compress(source, room, out taken, out written, isFinalBlock: step == EncoderStep.Finish);
        Debug.Assert(status is OperationStatus.Done or OperationStatus.DestinationTooSmall, "it cannot fail with valid arguments");
        if (status != OperationStatus.Done || step != EncoderStep.Flush) return status == OperationStatus.Done;
        status = _brotli.Flush(room[written..], out int flushed);
        written += flushed;
        return status == OperationStatus.Done;
    }

    private bool EncodeGzip(ReadOnlySpan<byte> source, Span<byte> room, EncoderStep step, out int taken, out int written)
    {
        int result;
        fixed (byte* from = source, to = room)
        {
            byte none = 0; // zlib wants an address also for nothing
            _zlib->NextIn = from == null ? &none : from;
            _zlib->AvailableIn = (uint)source.Length;
            _zlib->NextOut = to == null ? &none : to;
            _zlib->AvailableOut = (uint)room.Length;
            result = Zlib.Deflate(_zlib, step switch { EncoderStep.Take => Zlib.NoFlush, EncoderStep.Flush => Zlib.SyncFlush, _ => Zlib.Finish });
            Debug.Assert(result is Zlib.Ok or Zlib.StreamEnd or Zlib.BufferError, "it cannot fail with valid arguments");
            taken = source.Length - (int)_zlib->AvailableIn;
            written = room.Length - (int)_zlib->AvailableOut;
        }

        return step switch
        {
            EncoderStep.Take => taken == source.Length,
            EncoderStep.Flush => taken == source.Length && written < room.Length, // with room left nothing is held back
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
