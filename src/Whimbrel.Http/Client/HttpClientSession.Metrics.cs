using System.Diagnostics;

namespace Whimbrel.Http;

// What the meter is told of requests, and their activities. A field, and what runs on this thread, are looked at when nobody listens.
public abstract partial class HttpClientSession
{
    /// <summary>A request is about to be sent. What runs on this thread stays what it is.</summary>
    /// <param name="method">As the meter names it.</param>
    /// <param name="target">Path and query; of no use beside a request.</param>
    /// <param name="request">Null when there is none.</param>
    /// <param name="activity">Null when nobody wants it.</param>
    /// <returns>The fields that say what the request is a part of; null for none.</returns>
    private byte[]? BeginTrace(string method, ReadOnlySpan<byte> target, HttpClientRequest? request, out Activity? activity)
    {
        activity = null;
        Activity? outer = Activity.Current;
        if (outer is null && !HttpTraces.IsHeard) return null;
        try
        {
            activity = request is null ? HttpTraces.Asks(method, Peer, Tls is not null, target) : HttpTraces.Asks(request);
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

    /// <summary>It was not sent.</summary>
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

    /// <summary>It was sent. Those that were sent before anybody listened keep their places.</summary>
    private void Watch(string method, Activity? activity)
    {
        if (_watch is null)
        {
            _watch = new HttpClientWatch(Peer, Tls is not null, _options.PipelineLimit);
            for (int i = 0; i < _outstanding; i++) _watch.Sent("", 0, null);
            // The head of the first one may have come already.
            if (_isInBody) _watch.Answered(0, 0, 0, null);
        }

        _watch.Sent(HttpMetrics.NameOf(method), HttpMetrics.Current is { IsClientHeard: true } ? HttpMetrics.Now(Loop) : 0, activity);
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

    private void ListenerThrew(Exception exception) => NoteException(exception, "A listener of the meter or the activities \"Whimbrel\"");
}
