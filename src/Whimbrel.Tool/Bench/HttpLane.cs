using System.Text;
using Whimbrel.Http;

namespace Whimbrel.Tool.Bench;

/// <summary>Connection of a lane that sends one GET after the other and reads each answer to its end.</summary>
internal sealed class HttpLane(Lane lane, byte[] request) : Session, ILanePeer
{
    private static readonly HttpClientOptions s_options = new() { BodyLimitBytes = long.MaxValue };

    private readonly HttpMessageReader _reader = new(s_options);
    private long _received;
    private bool _awaits;
    private bool _hasParted;

    public string Progress => $"{_received} bytes came back, and no complete answer";

    /// <summary>Returns the bytes of a request for this URL.</summary>
    internal static byte[] RequestFor(Uri url) => Encoding.ASCII.GetBytes(
        $"GET {url.PathAndQuery} HTTP/1.1\r\nHost: {url.Authority}\r\nUser-Agent: whimbrel-bench\r\n"
        + "Accept: */*\r\n\r\n");

    public bool TrySend(long number)
    {
        if (_awaits || _hasParted || Send(request) != SendResult.Queued) return false;
        _awaits = true;
        _reader.ExpectAnswer(toHead: false);
        return true;
    }

    protected override void OnConnected() => lane.Opened(this);

    protected override int OnData(ReadOnlySpan<byte> unread)
    {
        int used = 0;
        while (_awaits)
        {
            HttpMessagePart part = _reader.Read(unread[used..], out int taken, out _);
            used += taken;
            _received += taken;
            if (part == HttpMessagePart.NeedMore) return used;
            if (part == HttpMessagePart.Done) Complete();
            else if (part is HttpMessagePart.Broken or HttpMessagePart.Switched)
                End("not-http", _reader.Failure?.Message ?? "the answer switches to another protocol");
        }

        if (used < unread.Length && !_hasParted) End("extra-bytes", "bytes came that belong to no answer");
        return unread.Length;
    }

    protected override void OnEndOfStream()
    {
        // The end of the connection ends an answer without a length.
        if (_awaits && _reader.Finish() == HttpMessagePart.Done) Complete();
        Close();
    }

    protected override void OnDrained() => lane.Freed(Clock.Now());

    protected override void OnDisconnected(CloseReason reason)
    {
        // A server may end a kept connection between two requests.
        bool isRegular = reason.Cause == CloseCause.PeerClosed && !_awaits;
        lane.Ended(this, isRegular ? null : ErrorCounts.KindOf(reason.Cause), reason.ToString());
    }

    private void Complete()
    {
        long now = Clock.Now();
        _awaits = false;
        lane.Load.Figures.Errors.AddStatus(_reader.Status);
        _hasParted = !_reader.IsPersistent;
        lane.Answered(now);
        if (_hasParted) Part();
        lane.Load.SendDue(now);
    }

    /// <summary>Closes after the last answer of this connection; the client opens the next one.</summary>
    private void Part()
    {
        lane.Ended(this, null, "");
        Close();
    }

    private void End(string kind, string text)
    {
        _awaits = false;
        _hasParted = true;
        lane.Ended(this, kind, text);
        Abort();
    }
}
