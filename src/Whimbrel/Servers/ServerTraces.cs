using System.Diagnostics;
using System.Net;
using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>
/// The activities "Whimbrel.Connections": one for each connection that a server accepts while a listener wants it, by the names of OpenTelemetry. A source of their own, as who follows requests must not get them too.
/// They begin and end on the connection's loop or strand, and are never the current one of anything: what a loop runs next belongs to another connection.
/// </summary>
internal static class ServerTraces
{
    internal const string Name = "Whimbrel.Connections";

    private static bool s_isThere;
    private static int s_isMade;

    internal static bool IsHeard => Volatile.Read(ref s_isThere) && Source.IsHeard;

    /// <summary>There is no source before: a listener is told of it on the thread pool, as of the meter.</summary>
    internal static void Prepare() => WhimbrelMeter.MakeOnce(ref s_isMade, static () =>
    {
        _ = Source.IsHeard;
        Volatile.Write(ref s_isThere, true);
    });

    /// <summary>Null when nobody wants it. A listener may throw: that harms no session.</summary>
    internal static object? ConnectionBegins(Server.Host server, Session session)
    {
        try
        {
            return Source.Begin(session);
        }
        catch (Exception e)
        {
            server.Engine.ReportException($"a listener of the activities \"{Name}\"", e);
            return null;
        }
    }

    internal static void ConnectionEnded(Server.Host server, object activity, CloseReason reason)
    {
        try
        {
            Source.End((Activity)activity, reason);
        }
        catch (Exception e)
        {
            server.Engine.ReportException($"a listener of the activities \"{Name}\"", e);
        }
    }

    /// <summary>A class of its own: nothing of it is loaded before it is made.</summary>
    private static class Source
    {
        private static readonly ActivitySource s_source = new(Name, typeof(ServerTraces).Assembly.GetName().Version?.ToString(3) ?? "");

        internal static bool IsHeard => s_source.HasListeners();

        internal static Activity? Begin(Session session)
        {
            // Whatever runs on this thread has not asked.
            Activity? outer = Activity.Current;
            Activity.Current = null;
            try
            {
                List<KeyValuePair<string, object?>> tags = [.. ServerMetrics.LabelsOf(session.LocalEndPoint), new("whimbrel.session.id", session.Id)];
                if (session.RemoteEndPoint is IPEndPoint peer)
                {
                    tags.Add(new("network.peer.address", peer.Address.ToString()));
                    tags.Add(new("network.peer.port", peer.Port));
                }

                return s_source.StartActivity("connection", ActivityKind.Server, default(ActivityContext), tags);
            }
            finally
            {
                Activity.Current = outer;
            }
        }

        internal static void End(Activity activity, CloseReason reason)
        {
            Activity? outer = Activity.Current;
            try
            {
                string cause = reason.Cause.ToString();
                activity.SetTag("whimbrel.close.cause", cause);
                if (!reason.IsGraceful)
                {
                    activity.SetTag("error.type", cause);
                    activity.SetStatus(ActivityStatusCode.Error, reason.ToString());
                }

                activity.Stop();
            }
            finally
            {
                Activity.Current = outer is { IsStopped: true } ? null : outer;
            }
        }
    }
}
