using System.Diagnostics;

namespace Whimbrel.Http;

// What the meter is told of requests, and their activities: each that began while somebody listened, once. A field is looked at when nobody does.
public partial class HttpSession
{
    /// <summary>The request under way is told of, and was not yet.</summary>
    private bool IsTimed => _exchange is { TimedFrom: not 0 };

    /// <summary>The head of a request has come.</summary>
    private void BeginTime(HttpMetrics metrics, HttpVerb verb)
    {
        Exchange.TimedFrom = HttpMetrics.Now(Loop);
        try
        {
            Exchange.IsCountedActive = metrics.RequestBegins(verb, Tls is not null);
            Exchange.Activity = HttpTraces.RequestBegins(Exchange.Request, Tls is not null);
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
        ServerExchange exchange = Exchange;
        (long Since, long Now) span = (exchange.TimedFrom, HttpMetrics.Now(Loop));
        bool wasActive = exchange.IsCountedActive, isSecure = Tls is not null;
        exchange.TimedFrom = 0;
        exchange.IsCountedActive = false;
        Activity? activity = exchange.Activity;
        exchange.Activity = null;
        HttpMetrics metrics = HttpMetrics.Current!;
        Parsing.HttpReader reader = exchange.Head.Reader;
        try
        {
            if (wasActive) metrics.CountActive(-1, reader.Verb, isSecure);
            metrics.RequestEnded(span, (reader.Verb, isSecure, reader.MinorVersion), exchange.Found.Route?.Pattern, status, error);
            if (activity is not null) HttpTraces.RequestEnded(activity, reader.Verb, exchange.Found.Route?.Pattern, status, error);
        }
        catch (Exception e)
        {
            ListenerThrew(e);
        }
    }

    private void ListenerThrew(Exception exception) => NoteException(exception, "A listener of the meter or the activities \"Whimbrel\"");
}
