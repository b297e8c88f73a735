using System.Diagnostics;
using System.Text;

namespace Whimbrel.Http;

/// <summary>
/// Activities "Whimbrel": one for each request of a server and of a client, by the names of OpenTelemetry, linked by
/// <c>traceparent</c>. Disabled without a listener.
/// </summary>
internal static class HttpTraces
{
    private static readonly ActivitySource s_source = new("Whimbrel",
        typeof(HttpTraces).Assembly.GetName().Version?.ToString(3) ?? "");

    internal static bool IsHeard => s_source.HasListeners();

    // ------------------------------------------------------------------ servers

    /// <summary>Starts the activity of a request; null without a listener. The current activity of the thread stays:
    /// see <see cref="Enter"/>.</summary>
    internal static Activity? RequestBegins(HttpRequest request, bool isSecure)
    {
        if (!IsHeard) return null;
        // The current activity of this thread has not caused the request.
        Activity? outer = Enter(null);
        try
        {
            ActivityContext.TryParse(request["traceparent"], request["tracestate"], isRemote: true,
                out ActivityContext parent);
            string method = HttpMetrics.NameOf(request.Verb);
            List<KeyValuePair<string, object?>> tags = [new("http.request.method", method),
                new("url.scheme", HttpMetrics.SchemeOf(isSecure)),
                new("url.path", Encoding.Latin1.GetString(request.Path))];
            if (!request.Authority.IsEmpty)
            {
                HttpMetricsPeer self = HttpMetricsPeer.Of(Encoding.Latin1.GetString(request.Authority), isSecure);
                tags.Add(new("server.address", self.Address));
                tags.Add(new("server.port", self.Port));
            }

            return s_source.StartActivity(NameOf(method, null), ActivityKind.Server, parent, tags);
        }
        finally
        {
            Enter(outer);
        }
    }

    /// <summary>Sets the current activity, and returns the previous one, to be restored.</summary>
    internal static Activity? Enter(Activity? activity)
    {
        Activity? outer = Activity.Current;
        Activity.Current = activity is { IsStopped: true } ? null : activity;
        return outer;
    }

    /// <summary>Ends the activity of a request. Arguments as for <see cref="HttpMetrics.RequestEnded"/>.</summary>
    internal static void RequestEnded(Activity activity, HttpVerb verb, string? route, int status, string? error)
    {
        if (route is not null)
        {
            activity.DisplayName = NameOf(HttpMetrics.NameOf(verb), route);
            activity.SetTag("http.route", route);
        }

        EndAside(activity, status, error ?? (status >= 500 ? $"{status}" : null));
    }

    // ------------------------------------------------------------------ clients

    /// <summary>Starts the activity of a request that is about to be sent, as the current one; null without a
    /// listener.</summary>
    internal static Activity? Asks(HttpClientRequest request)
    {
        if (!IsHeard) return null;
        Uri uri = request.Uri;
        return Asks(HttpMetrics.NameOf(request.Method), uri.IdnHost, uri.Port,
            $"{uri.Scheme}://{uri.Authority}{uri.AbsolutePath}", uri.Query.Length > 0);
    }

    /// <summary>Starts the activity of a request given by its parts.</summary>
    internal static Activity? Asks(string method, string host, bool isSecure, ReadOnlySpan<byte> target)
    {
        if (!IsHeard) return null;
        HttpMetricsPeer peer = HttpMetricsPeer.Of(host, isSecure);
        int query = target.IndexOf((byte)'?');
        string path = Encoding.Latin1.GetString(query < 0 ? target : target[..query]);
        return Asks(method, peer.Address, peer.Port, $"{HttpMetrics.SchemeOf(isSecure)}://{host}{path}", query >= 0);
    }

    // The query is hidden because it may contain secrets.
    private static Activity? Asks(string method, string address, object port, string url, bool hasQuery)
    {
        List<KeyValuePair<string, object?>> tags =
        [
            new("http.request.method", method), new("server.address", address), new("server.port", port),
            new("url.full", hasQuery ? url + "?*" : url),
        ];
        return s_source.StartActivity(NameOf(method, null), ActivityKind.Client, default(ActivityContext), tags);
    }

    /// <summary>Ends the activity at the head of the response, or at a failure. The previous activity becomes
    /// current.</summary>
    internal static void Answered(Activity activity, int status, string? error) =>
        End(activity, status, ErrorOf(status, error));

    /// <summary>Ends the activity without a change of the current one.</summary>
    internal static void AnsweredAside(Activity activity, int status, string? error) =>
        EndAside(activity, status, ErrorOf(status, error));

    private static string? ErrorOf(int status, string? error) => error ?? (status >= 400 ? $"{status}" : null);

    /// <summary>Returns the trace context fields, with their line end; null without a current activity, or if the
    /// request has its own.</summary>
    internal static byte[]? FieldsFor(HttpClientRequest? request)
    {
        if (Activity.Current is not { IdFormat: ActivityIdFormat.W3C, Id: { } id } current) return null;
        foreach ((string name, _) in request?.Fields ?? [])
        {
            if (name.Equals("traceparent", StringComparison.OrdinalIgnoreCase)) return null;
        }

        // A state set by the program could form another field.
        bool hasState = current.TraceStateString is { Length: > 0 } state
            && !state.AsSpan().ContainsAnyExceptInRange(' ', '~');
        return Encoding.ASCII.GetBytes(
            hasState ? $"traceparent: {id}\r\ntracestate: {current.TraceStateString}\r\n" : $"traceparent: {id}\r\n");
    }

    // ------------------------------------------------------------------ both

    private static void EndAside(Activity activity, int status, string? error)
    {
        Activity? outer = Activity.Current;
        try
        {
            End(activity, status, error);
        }
        finally
        {
            Enter(outer);
        }
    }

    private static void End(Activity activity, int status, string? error)
    {
        if (status != 0) activity.SetTag("http.response.status_code", status);
        if (error is not null)
        {
            activity.SetTag("error.type", error);
            activity.SetStatus(ActivityStatusCode.Error);
        }

        activity.Stop();
    }

    private static string NameOf(string method, string? route) =>
        (method == HttpMetrics.Unknown ? "HTTP" : method) + (route is null ? "" : " " + route);
}
