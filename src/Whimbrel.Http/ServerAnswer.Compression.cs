using System.Buffers;
using System.Runtime.CompilerServices;
using System.Text;
using Whimbrel.Http.Compression;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

// Compression of generated responses. A small body in memory is compressed at once, and sent with its length. A large
// one, and one written in pieces, is compressed into the buffer of pieces, which is sent in chunks.
internal sealed partial class ServerAnswer
{
    private bool _mayCompress;
    private bool _isKeptPlain;
    private bool _varies;

    internal bool MayCompress
    {
        get => _mayCompress;
        set
        {
            MustBeOpen();
            _mayCompress = value;
        }
    }

    private static ReadOnlySpan<byte> VaryLine => "Vary: Accept-Encoding\r\n"u8;

    private HttpCompression Compression => Session.Options.Compression ?? HttpCompression.Default;

    // ------------------------------------------------------------------ whether, and how

    /// <summary>Chooses the coding of the body. Adds Vary if other clients may get another coding.</summary>
    /// <param name="contentType">Type of the body, unless a Content-Type was added.</param>
    /// <param name="length">Length of the body in bytes; -1 if unknown.</param>
    /// <param name="isForced">Whether the client refuses the uncompressed body.</param>
    private HttpCoding ChooseCoding(ReadOnlySpan<byte> contentType, long length, out bool isForced)
    {
        isForced = false;
        if (_status == 206 || !IsCompressible(contentType) || _exchange is not { HasRequest: true } request)
            return HttpCoding.Identity;
        if (!_varies) AddLines(VaryLine);
        _varies = true;
        HttpCoding coding = request.ChooseCoding(hasGzip: true, hasBrotli: true, out isForced);
        bool isSmall = length == 0 || (length > 0 && length < Compression.MinimumBytes && !isForced);
        return isSmall ? HttpCoding.Identity : coding;
    }

    /// <summary>Returns whether the fields allow compression: a text type, and no field about the exact bytes of the
    /// body.</summary>
    private bool IsCompressible(ReadOnlySpan<byte> contentType)
    {
        ReadOnlySpan<byte> fields = Pieces.Fields.AsSpan(0, Pieces.FieldBytes);
        while (!fields.IsEmpty)
        {
            ReadOnlySpan<byte> line = fields[..(fields.IndexOf((byte)'\n') + 1)];
            fields = fields[line.Length..];
            if (IsNamed(line, "Content-Type"u8)) contentType = line[("Content-Type: "u8.Length)..^2];
            else if (IsNamed(line, "Content-Encoding"u8) || IsNamed(line, "Content-Range"u8)) return false;
            else if (IsNamed(line, "Content-Digest"u8) || IsNamed(line, "Repr-Digest"u8) || IsNamed(line, "Digest"u8)
                || IsNamed(line, "Content-MD5"u8))
                return false;
        }

        return CompressibleTypes.Has(contentType);
    }

    /// <summary>Adds the fields of a compressed body. It differs from the tagged one in its bytes, so the tag becomes
    /// weak, and it has no ranges.</summary>
    private void AddCoding(HttpCoding coding)
    {
        WeakenTag();
        AddLines(coding == HttpCoding.Brotli ? "Content-Encoding: br\r\n"u8 : "Content-Encoding: gzip\r\n"u8);
    }

    private void WeakenTag()
    {
        for (int at = 0; at < Pieces.FieldBytes;)
        {
            Span<byte> rest = Pieces.Fields.AsSpan(at, Pieces.FieldBytes - at),
                line = rest[..(rest.IndexOf((byte)'\n') + 1)];
            if (IsNamed(line, "Accept-Ranges"u8))
            {
                rest[line.Length..].CopyTo(rest);
                Pieces.FieldBytes -= line.Length;
                continue;
            }

            int value = at + "ETag: "u8.Length;
            at += line.Length;
            if (!IsNamed(line, "ETag"u8) || Pieces.Fields![value] != '"') continue;
            if (Pieces.Fields.Length - Pieces.FieldBytes < 2) GrowFields(2);
            Pieces.Fields.AsSpan(value, Pieces.FieldBytes - value).CopyTo(Pieces.Fields.AsSpan(value + 2));
            "W/"u8.CopyTo(Pieces.Fields.AsSpan(value));
            Pieces.FieldBytes += 2;
            at += 2;
        }
    }

    private static bool IsNamed(ReadOnlySpan<byte> line, ReadOnlySpan<byte> name) =>
        line.Length > name.Length && line[name.Length] == ':' && Ascii.EqualsIgnoreCase(line[..name.Length], name);

    /// <summary>Sets the fields of a 304 response: the tag is that of the compressed body, if the client would get
    /// that.</summary>
    private void BeAsCompressed(ServerExchange request)
    {
        // The type may be set only with the body. A weak tag and Vary are always correct.
        if (_hasContentType && !IsCompressible(default)) return;
        AddLines(VaryLine);
        if (request.ChooseCoding(hasGzip: true, hasBrotli: true, out _) != HttpCoding.Identity) WeakenTag();
    }

    // ------------------------------------------------------------------ a body in memory

    /// <summary>Responds with the compressed body, or returns false to send it uncompressed.</summary>
    private bool TryCompress(ReadOnlySpan<byte> body, ReadOnlySpan<byte> contentType)
    {
        HttpCoding coding = ChooseCoding(contentType, body.Length, out bool isForced);
        if (coding != HttpCoding.Identity && body.Length > WholeBytes)
        {
            KeepPlain(body, contentType);
            return true;
        }

        _mayCompress = false;
        if (coding == HttpCoding.Identity) return false;
        byte[] rented = ArrayPool<byte>.Shared.Rent(BodyEncoder.RoomFor(body.Length));
        try
        {
            int length = BodyEncoder.Encode(coding, Compression, body, rented);
            if (length == 0 || (length >= body.Length && !isForced)) return false;
            AddCoding(coding);
            _mayDivide = false; // ranges are those of the uncompressed body
            Bytes(rented.AsSpan(0, length), contentType);
            return true;
        }
        finally
        {
            ArrayPool<byte>.Shared.Return(rented);
        }
    }

    /// <summary>Keeps a large body, to compress it in pieces as the peer reads, and not on the loop.</summary>
    private void KeepPlain(ReadOnlySpan<byte> body, ReadOnlySpan<byte> contentType)
    {
        if (!_hasContentType && !contentType.IsEmpty)
        {
            AddLines("Content-Type: "u8);
            AddLines(contentType);
            AddLines("\r\n"u8);
            _hasContentType = true;
        }

        KeepForLater(default, body);
        Pieces.Announced = body.Length;
        _isKeptPlain = true;
        Complete(Progress.Ending);
    }

    private async ValueTask SendPlainLaterAsync()
    {
        _progress = Progress.Open;
        _isKeptPlain = false;
        await WriteAsync(Pieces.Later.AsMemory(0, Pieces.LaterLength), 0, default).ConfigureAwait(false);
        await EndWritingAsync().ConfigureAwait(false);
    }

    // ------------------------------------------------------------------ piece by piece

    /// <summary>Begins the body. Returns whether it is compressed.</summary>
    private bool BeginCoding()
    {
        if (!_mayCompress) return false;
        HttpCoding coding = ChooseCoding(default, Pieces.Announced, out _);
        if (coding == HttpCoding.Identity) return false;
        if (!_isHead && (Pieces.Encoder = BodyEncoder.TryMake(coding, Compression)) is null) return false;
        AddCoding(coding);
        return true;
    }

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder))]
    private async ValueTask EncodeAsync(ReadOnlyMemory<byte> data, EncoderStep step,
        CancellationToken cancellationToken)
    {
        // A large body takes milliseconds, which would delay other connections of the loop.
        if (data.Length > WholeBytes && Loop.Current is not null)
            await Task.CompletedTask.ConfigureAwait(ConfigureAwaitOptions.ForceYielding);
        while (true)
        {
            bool isDone = Pieces.Encoder!.Encode(data.Span, Pieces.Buffer.AsSpan(Pieces.Length,
                Pieces.Capacity - LineEnd - Pieces.Length), step, out int taken, out int written);
            data = data[taken..];
            Pieces.Length += written;
            BodyBytes += written;
            if (isDone) return;
            await SendBufferAsync(cancellationToken).ConfigureAwait(false);
        }
    }

    private async ValueTask EndEncoderAsync()
    {
        await EncodeAsync(default, EncoderStep.Finish, default).ConfigureAwait(false);
        ReleaseEncoder();
    }

    /// <summary>Releases the encoder. Called once the handler has ended, whatever the state of the
    /// connection.</summary>
    internal void ReleaseEncoder()
    {
        Pieces.Encoder?.Dispose();
        Pieces.Encoder = null;
    }
}
