using System.Diagnostics;

namespace Whimbrel.Http;

/// <summary>The requests of a client's session that wait for an answer, for the meter and the activities: which method, since when, and as what. There is one once somebody has listened.</summary>
/// <param name="host">Host and port as the requests name them.</param>
/// <param name="isSecure">They go over TLS.</param>
/// <param name="limit">So many requests are under way at most.</param>
internal sealed class HttpClientWatch(string host, bool isSecure, int limit)
{
    private readonly HttpMetricsPeer _peer = HttpMetricsPeer.Of(host, isSecure);
    private readonly (long Since, string Method, Activity? Activity)[] _waiting = new (long, string, Activity?)[limit];
    private int _first;
    private int _count;

    /// <summary>A request was sent.</summary>
    /// <param name="method">Its name.</param>
    /// <param name="since">Now; 0 for one that nobody wants to hear of.</param>
    /// <param name="activity">Its activity, if anybody follows it.</param>
    internal void Sent(string method, long since, Activity? activity)
    {
        Debug.Assert(_count < limit, "no more than may be under way");
        _waiting[(_first + _count++) % limit] = (since, method, activity);
    }

    /// <summary>The head of the answer to the oldest one has come, or it gets none.</summary>
    internal void Answered(long now, int status, int minorVersion, string? error)
    {
        (long since, string method, Activity? activity) = _waiting[_first];
        _waiting[_first].Activity = null;
        _first = (_first + 1) % limit;
        _count--;
        try
        {
            if (since != 0) HttpMetrics.Current!.AnswerCame((since, now), method, _peer, status, minorVersion, error);
        }
        finally
        {
            if (activity is not null) HttpTraces.AnsweredAside(activity, status, error);
        }
    }
}
