using System.Diagnostics;
using System.Net;
using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>
/// The activities "Whimbrel.Connections": one for each accepted connection while a listener is active, by the
/// conventions of OpenTelemetry. They have their own source, because listeners of request activities must not receive
/// them, too. They begin and end on the connection's loop or strand, and never become the current activity, because the
/// loop's next work belongs to another connection.
/// </summary>
internal static class ServerTraces
{
    internal const string Name = "Whimbrel.Connections";

    private static bool s_isThere;
    private static int s_isMade;

    internal static bool IsHeard => Volatile.Read(ref s_isThere) && Source.IsHeard;

    /// <summary>Creates the source on the thread pool, where listeners are notified of it, as for the meter.</summary>
    internal static void Prepare() => WhimbrelMeter.MakeOnce(ref s_isMade, static () =>
    {
        _ = Source.IsHeard;
        Volatile.Write(ref s_isThere, true);
    });

    /// <summary>
    /// Starts an activity; returns null if no listener wants it. An exception of a listener affects no session.
    /// </summary>
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

    /// <summary>A nested class, so that nothing of it is loaded before it is created.</summary>
    private static class Source
    {
        private static readonly ActivitySource s_source = new(Name,
            typeof(ServerTraces).Assembly.GetName().Version?.ToString(3) ?? "");

        internal static bool IsHeard => s_source.HasListeners();

        internal static Activity? Begin(Session session)
        {
            // The current activity of this thread is unrelated to the connection.
            Activity? outer = Activity.Current;
            Activity.Current = null;
            try
            {
                List<KeyValuePair<string, object?>> tags = [.. ServerMetrics.LabelsOf(session.LocalEndPoint),
                    new("whimbrel.session.id", session.Id)];
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
