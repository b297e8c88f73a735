using System.Diagnostics;

namespace Whimbrel.Http;

/// <summary>Pending requests of a client session, for metrics and activities: method, start time and activity. Created
/// once there is a listener.</summary>
/// <param name="host">Host and port, as in the requests.</param>
/// <param name="isSecure">Whether the requests use TLS.</param>
/// <param name="limit">Largest number of pending requests.</param>
internal sealed class HttpClientWatch(string host, bool isSecure, int limit)
{
    private readonly HttpMetricsPeer _peer = HttpMetricsPeer.Of(host, isSecure);
    private readonly (long Since, string Method, Activity? Activity)[] _waiting = new (long, string, Activity?)[limit];
    private int _first;
    private int _count;

    /// <summary>Adds a sent request.</summary>
    /// <param name="method">Name of the method.</param>
    /// <param name="since">Current time; 0 for a request that is not measured.</param>
    /// <param name="activity">Activity of the request; null for none.</param>
    internal void Sent(string method, long since, Activity? activity)
    {
        Debug.Assert(_count < limit, "no more than may be under way");
        _waiting[(_first + _count++) % limit] = (since, method, activity);
    }

    /// <summary>Removes the oldest request: the head of its response was received, or it has failed.</summary>
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
