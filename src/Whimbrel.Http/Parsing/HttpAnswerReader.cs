namespace Whimbrel.Http.Parsing;

/// <summary>
/// Reads the answers that come on one connection, each from <see cref="Begin"/> on: any number of interim heads within a limit, the head, the
/// body. Bytes in, parts out; knows no connection and no clock. What it does not take is given again, joined with what follows.
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
        /// <summary>No answer: whatever comes breaks a rule.</summary>
        Nothing,
        Head,
        Body,
        Over,
    }

    /// <summary>The last head that was read, with its bytes.</summary>
    internal HttpHead Head { get; } = new();

    /// <summary>The rule that was broken.</summary>
    internal HttpRule Rule { get; private set; }

    /// <summary>Where the piece begins, or the trailers, in the bytes of the last call.</summary>
    internal int Start => _body.Start;

    /// <summary>How long it is.</summary>
    internal int Length => _body.Length;

    /// <summary>Bytes of the body that are known to be missing.</summary>
    internal long Left => _body.Left;

    /// <summary>Bytes of a head, or of an interim one, have come, and no whole answer.</summary>
    internal bool HasBegun { get; private set; }

    /// <summary>The connection may serve another request behind the answer whose head was read last: it says so, and has an end of its own.</summary>
    internal bool IsReusable { get; private set; }

    /// <summary>The answer to a request comes next.</summary>
    internal void Begin(bool answersHead)
    {
        _answersHead = answersHead;
        _expected = Expected.Head;
        _interims = 0;
        HasBegun = false;
        // Not before its first byte: the last head may still be looked at.
        _isStale = true;
    }

    /// <summary>The head, for good: the next one is read into the same place.</summary>
    internal HttpHead TakeHead() => Head.Copy();

    /// <summary>Reads on.</summary>
    /// <param name="unread">What the last call did not take, and what has come since.</param>
    /// <param name="taken">How many of them are not to be given again.</param>
    /// <param name="most">The longest piece of a body that is wanted.</param>
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

    /// <summary>The sender has finished: the end of a body that has no other.</summary>
    internal HttpMessagePart Finish()
    {
        if (_expected == Expected.Body && _body.Finish() == HttpReading.Done) return End();
        return Break(HttpRule.Truncated);
    }

    /// <summary>The place in a body, to go back to when a piece was not wanted.</summary>
    internal HttpBodyReader Mark() => _body;

    /// <summary>Back to where a piece began that was read since, and nothing else.</summary>
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

    private HttpMessagePart ReadBody(ReadOnlySpan<byte> unread, ref int taken, int most) => _body.Read(unread, out taken, most) switch
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
