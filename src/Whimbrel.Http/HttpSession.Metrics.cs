using System.Diagnostics;

namespace Whimbrel.Http;

// Metrics and activities of requests. A request that began with a listener is recorded once; without one it costs one
// check of a field.
public partial class HttpSession
{
    /// <summary>Whether the current request is to be recorded, and was not yet.</summary>
    private bool IsTimed => _exchange is { TimedFrom: not 0 };

    /// <summary>Called when the head of a request was received.</summary>
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

    /// <summary>Records the end of a request, with or without a response, while its head is available.</summary>
    /// <param name="status">Status code; 0 if no response was sent.</param>
    /// <param name="error">Error type that the status does not show; null for none.</param>
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
            metrics.RequestEnded(span, (reader.Verb, isSecure, reader.MinorVersion), exchange.Found.Route?.Pattern,
                status, error);
            if (activity is not null)
                HttpTraces.RequestEnded(activity, reader.Verb, exchange.Found.Route?.Pattern, status, error);
        }
        catch (Exception e)
        {
            ListenerThrew(e);
        }
    }

    private void ListenerThrew(Exception exception) =>
        ReportException(exception, "A listener of the meter or the activities \"Whimbrel\"");
}
