using System.Diagnostics;

namespace Whimbrel.Http;

// What the meter is told of requests, and their activities: each that began while somebody listened, once. A field is looked at when nobody does.
public partial class HttpSession
{
    private long _timedFrom; // when the request under way began, by HttpMetrics.Now; 0 when it is not told of, or was
    private bool _isCountedActive;
    private Activity? _activity;

    /// <summary>The head of a request has come.</summary>
    private void BeginTime(HttpMetrics metrics, HttpVerb verb)
    {
        _timedFrom = HttpMetrics.Now(Loop);
        try
        {
            _isCountedActive = metrics.RequestBegins(verb, Tls is not null);
            _activity = HttpTraces.RequestBegins(_request!, Tls is not null);
        }
        catch (Exception e)
        {
            ListenerThrew(e);
        }
    }

    /// <summary>It has its answer, or gets none. While its head is there.</summary>
    /// <param name="status">0 when none was sent.</param>
    /// <param name="error">What went wrong, when something did that the status does not say.</param>
    private void TellTime(int status, string? error)
    {
        (long Since, long Now) span = (_timedFrom, HttpMetrics.Now(Loop));
        bool wasActive = _isCountedActive, isSecure = Tls is not null;
        _timedFrom = 0;
        _isCountedActive = false;
        Activity? activity = _activity;
        _activity = null;
        HttpMetrics metrics = HttpMetrics.Current!;
        Parsing.HttpReader reader = _head!.Reader;
        try
        {
            if (wasActive) metrics.CountActive(-1, reader.Verb, isSecure);
            metrics.RequestEnded(span, (reader.Verb, isSecure, reader.MinorVersion), _found.Route?.Pattern, status, error);
            if (activity is not null) HttpTraces.RequestEnded(activity, reader.Verb, _found.Route?.Pattern, status, error);
        }
        catch (Exception e)
        {
            ListenerThrew(e);
        }
    }

    private void ListenerThrew(Exception exception) => NoteException(exception, "A listener of the meter or the activities \"Whimbrel\"");
}
