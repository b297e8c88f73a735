using System.Buffers;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

// Request of an exchange: data for its handle, the response and the session, and the buffered body.
internal sealed partial class ServerExchange
{
    internal HttpReader Reader => Head.Reader;

    /// <summary>Path, percent-encoded as received.</summary>
    internal ReadOnlySpan<byte> Path
    {
        get
        {
            ReadOnlySpan<byte> path = Head.Bytes[Reader.Path];
            return path.IsEmpty && !Head.Bytes[Reader.Target].SequenceEqual("*"u8) ? "/"u8 : path;
        }
    }

    internal ReadOnlySpan<byte> Method => Head.Bytes[Reader.Method];

    internal bool HasBody => Reader.Framing != HttpFraming.None;

    /// <summary>Body, if it is buffered and complete.</summary>
    internal ReadOnlySpan<byte> KeptBody => IsKeptWhole ? Kept.AsSpan(0, KeptBytes) : default;

    /// <summary>Whether it is a GET with exactly one Range field.</summary>
    internal bool IsPartial => Reader.Verb == HttpVerb.Get && Reader.IndexOf(HttpField.Range) is >= 0 and int index
        && Reader.IndexOf(HttpField.Range, index + 1) < 0;

    internal RangeWish ReadRanges(long length, Span<HttpRange> parts, out int count) => HttpRanges.Read(
        Head.TryGet(HttpField.Range, out ReadOnlySpan<byte> value) ? value : default, length, parts, out count);

    internal ConditionVerdict Judge(ReadOnlySpan<byte> tag, long modified) =>
        HttpConditions.Judge(Reader, Head.Bytes, tag, modified, DateTimeOffset.UtcNow.ToUnixTimeSeconds());

    internal bool MaySendParts(ReadOnlySpan<byte> tag, long modified) =>
        HttpConditions.MaySendParts(Reader, Head.Bytes, tag, modified, DateTimeOffset.UtcNow.ToUnixTimeSeconds());

    internal HttpCoding ChooseCoding(bool hasGzip, bool hasBrotli, out bool refusesIdentity) =>
        HttpCodings.Choose(Reader, Head.Bytes, hasGzip, hasBrotli, out refusesIdentity);

    /// <summary>Returns the part of the path that matches a name of the route's pattern.</summary>
    internal ReadOnlySpan<byte> RouteValue(string name)
    {
        int index = Array.IndexOf(Places.Names ?? [], name);
        if (index < 0) throw new KeyNotFoundException($"The route's pattern has no {{{name}}}.");
        return Path.Slice(Places.Starts[index], Places.Lengths[index]);
    }

    // ------------------------------------------------------------------ for the session

    internal void BeginRequest()
    {
        HasRequest = true;
        Places = default;
        EnterCallback();
    }

    internal void Append(ReadOnlySpan<byte> piece)
    {
        // The buffer grows with the received bytes, not with the announced length.
        int needed = KeptBytes + piece.Length;
        if (Kept is null || Kept.Length < needed) Grow(needed);
        piece.CopyTo(Kept.AsSpan(KeptBytes));
        KeptBytes = needed;
    }

    private void Grow(int needed)
    {
        byte[] larger = ArrayPool<byte>.Shared.Rent(Math.Max(needed,
            Math.Min(KeptBytes * 2, Session.Options.BufferedBodyLimitBytes)));
        if (Kept is { } old)
        {
            old.AsSpan(0, KeptBytes).CopyTo(larger);
            ArrayPool<byte>.Shared.Return(old);
        }

        Kept = larger;
    }

    internal void SetTrailers(ReadOnlySpan<byte> trailers) => Trailers = trailers.IsEmpty ? null : trailers.ToArray();

    private void ReleaseRequest()
    {
        if (Kept is { } body) ArrayPool<byte>.Shared.Return(body);
        Kept = Trailers = null;
        Whole = null;
        KeptBytes = 0;
        IsKeptWhole = HasRequest = false;
        Stream = null;
    }
}
