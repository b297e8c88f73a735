using System.Diagnostics;

namespace Whimbrel.Http;

// Metrics and activities of requests. Without a listener this costs a check of one field and of the current activity.
public abstract partial class HttpClientSession
{
    /// <summary>Starts the trace of a request that is about to be sent. The current activity of the thread is
    /// restored.</summary>
    /// <param name="method">Method, as named in metrics.</param>
    /// <param name="target">Path and query; ignored if there is a request object.</param>
    /// <param name="request">Request object, or null.</param>
    /// <param name="activity">Activity of the request; null without a listener.</param>
    /// <returns>Trace context fields; null for none.</returns>
    private byte[]? BeginTrace(string method, ReadOnlySpan<byte> target, HttpClientRequest? request,
        out Activity? activity)
    {
        activity = null;
        Activity? outer = Activity.Current;
        if (outer is null && !HttpTraces.IsHeard) return null;
        try
        {
            activity =
                request is null ? HttpTraces.Asks(method, Peer, Tls is not null, target) : HttpTraces.Asks(request);
            return HttpTraces.FieldsFor(request);
        }
        catch (Exception e)
        {
            ListenerThrew(e);
            return null;
        }
        finally
        {
            HttpTraces.Enter(outer);
        }
    }

    /// <summary>Ends the trace of a request that was not sent.</summary>
    private void EndTrace(Activity activity, SendResult result)
    {
        try
        {
            HttpTraces.AnsweredAside(activity, 0, result.ToString());
        }
        catch (Exception e)
        {
            ListenerThrew(e);
        }
    }

    /// <summary>Records a sent request. Requests sent before the first listener keep their places.</summary>
    private void Watch(string method, Activity? activity)
    {
        if (_watch is null)
        {
            _watch = new HttpClientWatch(Peer, Tls is not null, _options.PipelineLimit);
            for (int i = 0; i < _outstanding; i++) _watch.Sent("", 0, null);
            // The head of the first response may have been received already.
            if (_isInBody) _watch.Answered(0, 0, 0, null);
        }

        _watch.Sent(HttpMetrics.NameOf(method),
            HttpMetrics.Current is { IsClientHeard: true } ? HttpMetrics.Now(Loop) : 0, activity);
    }

    private void TellTime(int status, int minorVersion, string? error)
    {
        try
        {
            _watch!.Answered(HttpMetrics.Now(Loop), status, minorVersion, error);
        }
        catch (Exception e)
        {
            ListenerThrew(e);
        }
    }

    private void ListenerThrew(Exception exception) =>
        ReportException(exception, "A listener of the meter or the activities \"Whimbrel\"");
}
