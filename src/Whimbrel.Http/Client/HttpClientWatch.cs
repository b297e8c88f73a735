namespace Whimbrel.Http;

/// <summary>The requests of a client's session that wait for an answer, for the meter: which method, and since when. There is one once somebody has listened.</summary>
/// <param name="host">Host and port as the requests name them.</param>
/// <param name="isSecure">They go over TLS.</param>
/// <param name="limit">So many requests are under way at most.</param>
internal sealed class HttpClientWatch(string host, bool isSecure, int limit)
{
    private readonly HttpMetricsPeer _peer = HttpMetricsPeer.Of(host, isSecure);
    private readonly (long Since, string Method)[] _waiting = new (long, string)[limit];
    private int _first;
    private int _count;

    /// <summary>A request was sent.</summary>
    /// <param name="method">Its name.</param>
    /// <param name="since">Now; 0 for one that nobody wants to hear of.</param>
    internal void Sent(string method, long since)
    {
        System.Diagnostics.Debug.Assert(_count < limit, "no more than may be under way");
        _waiting[(_first + _count++) % limit] = (since, method);
    }

    /// <summary>The head of the answer to the oldest one has come, or it gets none.</summary>
    internal void Answered(long now, int status, int minorVersion, string? error)
    {
        (long since, string method) = _waiting[_first];
        _first = (_first + 1) % limit;
        _count--;
        if (since != 0) HttpMetrics.Current!.AnswerCame((since, now), method, _peer, status, minorVersion, error);
    }
}
