using System.Buffers;
using System.Buffers.Text;
using System.Security.Cryptography;
using System.Text;
using Microsoft.Win32.SafeHandles;
using Whimbrel.Http.Files;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

// Conditional and range responses: files, and responses of handlers with a tag. Conditions are evaluated before
// anything is sent; ranges are cut once the body is known.
internal sealed partial class ServerAnswer
{
    private const int CopiedBytes = 16 * 1024;
    private const int RangeLine = 96;
    private const int PartHead = 256;

    // A random boundary is unknown to the author of a file, so no file contains it except by accident.
    private static readonly string s_boundary = RandomNumberGenerator.GetHexString(24, lowercase: true);
    private static readonly byte[] s_partsType =
        Encoding.ASCII.GetBytes($"multipart/byteranges; boundary={s_boundary}");
    private static readonly byte[] s_partStart = Encoding.ASCII.GetBytes($"\r\n--{s_boundary}\r\n");
    private static readonly byte[] s_partsEnd = Encoding.ASCII.GetBytes($"\r\n--{s_boundary}--\r\n");

    private bool _mayDivide;

    internal void File(string path, string? contentType = null)
    {
        ArgumentException.ThrowIfNullOrEmpty(path);
        if (path.Contains('\0', StringComparison.Ordinal))
            throw new ArgumentException("The path has a NUL, which no file's path has: where a path comes from a "
                + "request, use HttpServer.Files.", nameof(path));
        MustBeOpen();
        if (!CanHaveBody) throw new InvalidOperationException($"An answer with status {_status} has no body.");
        if (contentType is not null) HttpWriter.CheckValue(Encoding.UTF8.GetBytes(contentType), nameof(contentType));
        Pieces.File = path;
        Pieces.FileType = contentType;
        Complete(Progress.Ending);
    }

    internal bool MeetsConditions(string? entityTag, DateTimeOffset? lastModified = null)
    {
        MustBeOpen();
        if (entityTag is not null)
        {
            CheckTag(entityTag);
            Add("ETag", entityTag);
        }

        long modified = lastModified?.ToUnixTimeSeconds() ?? HttpConditions.NoDate;
        if (lastModified is not null) Add("Last-Modified", HttpTime.TextOf(modified));
        Span<byte> tag = stackalloc byte[entityTag is { Length: < 256 } ? entityTag.Length : 0];
        if (entityTag is { Length: >= 256 }) tag = new byte[entityTag.Length];
        if (entityTag is not null) Encoding.ASCII.GetBytes(entityTag, tag);
        ServerExchange request = _exchange;
        switch (request.Judge(tag, modified))
        {
            case ConditionVerdict.NotModified:
                if (_mayCompress) BeAsCompressed(request);
                Empty(304);
                return false;
            case ConditionVerdict.Failed:
                Fail(412);
                return false;
        }

        if (request.Reader.Verb is not (HttpVerb.Get or HttpVerb.Head)) return true;
        Add("Accept-Ranges", "bytes");
        _mayDivide = request.MaySendParts(tag, modified);
        return true;
    }

    private static void CheckTag(string tag)
    {
        ReadOnlySpan<char> quoted = tag.StartsWith("W/", StringComparison.Ordinal) ? tag.AsSpan(2) : tag;
        bool isTag = quoted.Length >= 2 && quoted[0] == '"' && quoted[^1] == '"'
            && quoted[1..^1].IndexOfAnyExceptInRange('!', '~') < 0 && !quoted[1..^1].Contains('"');
        if (!isTag)
            throw new ArgumentException($"An entity tag stands in quotes, with visible ASCII between them: {tag}",
                nameof(tag));
    }

    // ------------------------------------------------------------------ files

    /// <summary>Responds with a variant of a file. The caller keeps a reference to it until this returns.</summary>
    internal void SendVariant(FileVariant variant)
    {
        MustBeOpen();
        ServerExchange request = _exchange;
        if (_status != 200)
        {
            SendVariant(variant, 0, variant.Length);
            return;
        }

        switch (request.Judge(variant.Tag, variant.ModifiedSeconds))
        {
            case ConditionVerdict.NotModified:
                _status = 304;
                SendHead(HttpFraming.None, 0, variant.Lines, default, default);
                Complete(Progress.Done);
                return;
            case ConditionVerdict.Failed:
                Fail(412);
                return;
        }

        Span<HttpRange> parts = stackalloc HttpRange[HttpRanges.Most];
        int count = 0;
        bool isAsked = request.IsPartial && request.MaySendParts(variant.Tag, variant.ModifiedSeconds);
        switch (isAsked ? request.ReadRanges(variant.Length, parts, out count) : RangeWish.Whole)
        {
            case RangeWish.Unsatisfiable:
                RefuseRange(variant.Length);
                return;
            case RangeWish.Parts when count == 1:
                _status = 206;
                SendVariant(variant, parts[0].Start, parts[0].Length);
                return;
            case RangeWish.Parts:
                _status = 206;
                SendVariant(variant, parts[..count]);
                return;
            default:
                SendVariant(variant, 0, variant.Length);
                return;
        }
    }

    private void SendVariant(FileVariant variant, long start, long length)
    {
        Span<byte> line = stackalloc byte[RangeLine];
        line = _status == 206 ? line[..WriteRangeLine(line, start, length, variant.Length)] : default;
        SendHead(HttpFraming.Length, length, variant.BodyLines, line, variant.Type, variant, start);
        Complete(Progress.Done);
    }

    private void SendVariant(FileVariant variant, ReadOnlySpan<HttpRange> parts)
    {
        Span<byte> head = variant.Type.Length + 2 * RangeLine <= PartHead
            ? stackalloc byte[PartHead]
            : new byte[variant.Type.Length + 2 * RangeLine];
        long total = s_partsEnd.Length;
        foreach (HttpRange part in parts)
            total += WritePartHead(head, variant.Type, part, variant.Length) + part.Length;
        SendHead(HttpFraming.Length, total, variant.BodyLines, default, s_partsType);
        foreach (HttpRange part in parts)
            SendBody(head[..WritePartHead(head, variant.Type, part, variant.Length)], variant, part.Start, part.Length);
        Session.Send(s_partsEnd);
        Complete(Progress.Done);
    }

    private void SendHead(HttpFraming framing, long length, ReadOnlySpan<byte> lines, ReadOnlySpan<byte> line,
        ReadOnlySpan<byte> type, FileVariant? variant = null, long start = 0)
    {
        bool isPersistent = Decide();
        BodyBytes = _isHead ? 0 : length;
        int room = HeadRoom + Pieces.FieldBytes + lines.Length + line.Length + type.Length;
        byte[]? rented = null;
        Span<byte> head =
            room <= 2 * SmallHead ? stackalloc byte[2 * SmallHead] : rented = ArrayPool<byte>.Shared.Rent(room);
        head = head[..WriteHead(head, framing, length, isPersistent, type, lines, line)];
        if (variant is null || _isHead || length == 0) Session.Send(head);
        else SendBody(head, variant, start, length);
        if (rented is not null) ArrayPool<byte>.Shared.Return(rented);
    }

    private void SendBody(ReadOnlySpan<byte> head, FileVariant variant, long start, long length)
    {
        if (variant.Source is { } file) Session.Send(Outgoing.File(file, start, length).WithHead(head));
        else if (length < CopiedBytes)
            Session.Send(Outgoing.Pieces(head, variant.Bytes!.Memory.Span.Slice((int)start, (int)length)));
        else Session.Send(Outgoing.Shared(variant.Bytes!, (int)start, (int)length).WithHead(head));
    }

    private void RefuseRange(long length)
    {
        Add("Content-Range", $"bytes */{length}");
        Fail(416);
    }

    private static int WriteRangeLine(Span<byte> into, long start, long length, long of)
    {
        "Content-Range: bytes "u8.CopyTo(into);
        int at = 21;
        at += Number(into[at..], start, (byte)'-');
        at += Number(into[at..], start + length - 1, (byte)'/');
        at += Number(into[at..], of, (byte)'\r');
        into[at] = (byte)'\n';
        return at + 1;
    }

    private static int Number(Span<byte> into, long number, byte behind)
    {
        Utf8Formatter.TryFormat(number, into, out int digits);
        into[digits] = behind;
        return digits + 1;
    }

    private static int WritePartHead(Span<byte> into, ReadOnlySpan<byte> type, HttpRange part, long of)
    {
        int at = Copy(into, 0, s_partStart);
        if (!type.IsEmpty)
        {
            at = Copy(into, at, "Content-Type: "u8);
            at = Copy(into, at, type);
            at = Copy(into, at, "\r\n"u8);
        }

        at += WriteRangeLine(into[at..], part.Start, part.Length, of);
        return Copy(into, at, "\r\n"u8);
    }

    private static int Copy(Span<byte> into, int at, ReadOnlySpan<byte> bytes)
    {
        bytes.CopyTo(into[at..]);
        return at + bytes.Length;
    }

    private async ValueTask SendFileLaterAsync(string path)
    {
        string? type = Pieces.FileType;
        SafeFileHandle? handle;
        FileStamp stamp;
        try
        {
            (handle, stamp) = await Task.Run(() => FileRoot.OpenPath(path)).ConfigureAwait(false);
        }
        finally
        {
            _progress = Progress.Open; // nothing was sent: 404 is possible, and 500 after an error of the system
        }

        if (handle is null)
        {
            Fail(404);
            return;
        }

        FileVariant variant = FileVariant.Open(handle, stamp, type ?? s_types.Of(path), default);
        try
        {
            SendVariant(variant);
        }
        finally
        {
            variant.EndUse();
        }
    }

    private static readonly ContentTypes s_types = new();

    // ------------------------------------------------------------------ bodies of handlers

    /// <summary>Responds with the requested ranges of a body. Returns false if the whole body is wanted.</summary>
    private bool TryDivide(ReadOnlySpan<byte> body, ReadOnlySpan<byte> contentType)
    {
        ServerExchange request = _exchange;
        if (!_mayDivide || _status != 200 || !request.IsPartial) return false;
        _mayDivide = false;
        Span<HttpRange> parts = stackalloc HttpRange[HttpRanges.Most];
        switch (request.ReadRanges(body.Length, parts, out int count))
        {
            case RangeWish.Whole:
                return false;
            case RangeWish.Unsatisfiable:
                RefuseRange(body.Length);
                return true;
            case RangeWish.Parts when count > 1 && _hasContentType:
                return false; // the type of the parts would have to be removed from the fields
        }

        _status = 206;
        if (count == 1)
        {
            Add("Content-Range", $"bytes {parts[0].Start}-{parts[0].Start + parts[0].Length - 1}/{body.Length}");
            Bytes(body.Slice((int)parts[0].Start, (int)parts[0].Length), contentType);
            return true;
        }

        byte[] all = ArrayPool<byte>.Shared.Rent(body.Length + HttpRanges.Most * (contentType.Length + 2 * RangeLine)
            + s_partsEnd.Length);
        int length = 0;
        foreach (HttpRange part in parts[..count])
        {
            length += WritePartHead(all.AsSpan(length), contentType, part, body.Length);
            length = Copy(all, length, body.Slice((int)part.Start, (int)part.Length));
        }

        length = Copy(all, length, s_partsEnd);
        Bytes(all.AsSpan(0, length), s_partsType);
        ArrayPool<byte>.Shared.Return(all);
        return true;
    }

    /// <summary>Begins the range of a body written in pieces, which has at most one. Bytes outside of it are not
    /// sent.</summary>
    private void BeginPart(Span<byte> line, out int lineLength)
    {
        lineLength = 0;
        Pieces.PartStart = 0;
        Pieces.PartEnd = Pieces.Announced;
        if (!_mayDivide || _status != 200 || !_exchange.IsPartial) return;
        Span<HttpRange> parts = stackalloc HttpRange[HttpRanges.Most];
        if (_exchange.ReadRanges(Pieces.Announced, parts, out int count) != RangeWish.Parts || count != 1) return;
        _status = 206;
        Pieces.PartStart = parts[0].Start;
        Pieces.PartEnd = parts[0].Start + parts[0].Length;
        lineLength = WriteRangeLine(line, Pieces.PartStart, parts[0].Length, Pieces.Announced);
    }

    /// <summary>Returns the part of a piece that is inside the range, for a body with a length.</summary>
    private ReadOnlyMemory<byte> PartOf(ReadOnlyMemory<byte> data)
    {
        long at = Pieces.Announced - Pieces.Left - data.Length; // the piece is counted already
        int from = (int)Math.Clamp(Pieces.PartStart - at, 0, data.Length),
            to = (int)Math.Clamp(Pieces.PartEnd - at, from, data.Length);
        return data[from..to];
    }
}
