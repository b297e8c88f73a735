namespace Whimbrel.Http.Parsing;

/// <summary>
/// Reads the responses of one connection, each from <see cref="Begin"/> on: interim heads within a limit, the head, the
/// body. It has no connection and no clock. Unconsumed bytes are passed again, followed by new ones.
/// </summary>
internal sealed class HttpAnswerReader(HttpReaderLimits limits, int interimLimit)
{
    private HttpBodyReader _body;
    private Expected _expected;
    private int _interims;
    private bool _answersHead;
    private bool _isStale;

    private enum Expected
    {
        /// <summary>No response: any byte breaks a rule.</summary>
        Nothing,
        Head,
        Body,
        Over,
    }

    /// <summary>Last head, with its bytes.</summary>
    internal HttpHead Head { get; } = new();

    /// <summary>Broken rule.</summary>
    internal HttpRule Rule { get; private set; }

    /// <summary>Offset of the piece, or of the trailers, in the bytes of the last call.</summary>
    internal int Start => _body.Start;

    /// <summary>Length of the piece, or of the trailers.</summary>
    internal int Length => _body.Length;

    /// <summary>Known number of missing body bytes.</summary>
    internal long Left => _body.Left;

    /// <summary>Whether any byte of a response was received, and not yet all of it.</summary>
    internal bool HasBegun { get; private set; }

    /// <summary>Whether the connection can serve another request after the current response, by its fields and
    /// framing.</summary>
    internal bool IsReusable { get; private set; }

    /// <summary>Begins the response to a request.</summary>
    internal void Begin(bool answersHead)
    {
        _answersHead = answersHead;
        _expected = Expected.Head;
        _interims = 0;
        HasBegun = false;
        // Not before its first byte: the last head may still be in use.
        _isStale = true;
    }

    /// <summary>Returns a permanent copy of the head, because the next one is read into the same object.</summary>
    internal HttpHead TakeHead() => Head.Copy();

    /// <summary>Continues to read.</summary>
    /// <param name="unread">Bytes that the last call did not consume, followed by new bytes.</param>
    /// <param name="taken">Number of bytes consumed, which are not passed again.</param>
    /// <param name="most">Largest wanted piece of a body.</param>
    internal HttpMessagePart Read(ReadOnlySpan<byte> unread, out int taken, int most = int.MaxValue)
    {
        taken = 0;
        switch (_expected)
        {
            case Expected.Head:
                return ReadHead(unread, ref taken);
            case Expected.Body:
                return ReadBody(unread, ref taken, most);
            case Expected.Nothing when unread.IsEmpty:
                return HttpMessagePart.NeedMore;
            default:
                return Break(Rule == HttpRule.None ? HttpRule.Unasked : Rule);
        }
    }

    /// <summary>Signals the end of the sender's data, which ends a body without other framing.</summary>
    internal HttpMessagePart Finish()
    {
        if (_expected == Expected.Body && _body.Finish() == HttpReading.Done) return End();
        return Break(HttpRule.Truncated);
    }

    /// <summary>Returns the position in a body, to restore if a piece is not wanted.</summary>
    internal HttpBodyReader Mark() => _body;

    /// <summary>Restores the position before the piece read since, and nothing else.</summary>
    internal void GoBack(in HttpBodyReader mark) => _body = mark;

    private HttpMessagePart ReadHead(ReadOnlySpan<byte> unread, ref int taken)
    {
        if (unread.IsEmpty) return HttpMessagePart.NeedMore;
        HasBegun = true;
        HttpReader reader = Head.Reader;
        if (_isStale)
        {
            _isStale = false;
            reader.BeginResponse(limits, _answersHead);
        }

        switch (reader.Read(unread))
        {
            case HttpReading.NeedMore:
                return HttpMessagePart.NeedMore;
            case HttpReading.Broken:
                return Break(reader.Rule);
        }

        Head.Keep(unread[..reader.HeadLength]);
        taken = reader.HeadLength;
        if (reader.Status == 101)
        {
            if (!reader.WantsUpgrade) return Break(HttpRule.BadSwitch);
            _expected = Expected.Over;
            return HttpMessagePart.Switched;
        }

        if (reader.Status < 200)
        {
            if (++_interims > interimLimit) return Break(HttpRule.TooManyInterims);
            _isStale = true;
            return HttpMessagePart.Interim;
        }

        _body = new HttpBodyReader(reader, limits);
        _expected = Expected.Body;
        IsReusable = reader.IsPersistent && reader.Framing != HttpFraming.UntilClose;
        return HttpMessagePart.Head;
    }

    private HttpMessagePart ReadBody(ReadOnlySpan<byte> unread, ref int taken, int most) =>
        _body.Read(unread, out taken, most) switch
        {
            HttpReading.Data => HttpMessagePart.Data,
            HttpReading.Done => End(),
            HttpReading.Broken => Break(_body.Rule),
            _ => HttpMessagePart.NeedMore,
        };

    private HttpMessagePart End()
    {
        _expected = Expected.Nothing;
        HasBegun = false;
        return HttpMessagePart.Done;
    }

    private HttpMessagePart Break(HttpRule rule)
    {
        Rule = rule;
        _expected = Expected.Over;
        return HttpMessagePart.Broken;
    }
}
