using System.Text.Json;
using Whimbrel.Clusters;
using Whimbrel.Diagnostics;

namespace Whimbrel.Dashboard;

/// <summary>
/// Writes the view of one page. Connections, groups and ends are pages of rows; notices are all there are.
/// </summary>
internal sealed class ViewWriter(Sample sample, EndedSessions ended, IReadOnlyList<Server.Host> servers,
    Engine[] engines)
{
    /// <summary>Most characters of a text of the application.</summary>
    private const int MostText = 300;

    private readonly DateTimeOffset _now = engines[0].UtcNow;

    internal void Write(Utf8JsonWriter json, Viewer viewer, GroupQuestion? question)
    {
        View view = viewer.View;
        json.WriteString("view", view.Kind.ToString().ToLowerInvariant());
        switch (view.Kind)
        {
            case ViewKind.Connections:
                WriteConnections(json, view, question);
                break;
            case ViewKind.Connection:
                WriteConnection(json, viewer, question);
                break;
            case ViewKind.Groups:
                WriteGroups(json, view);
                break;
            case ViewKind.Ended:
                WriteEnded(json, view);
                break;
            case ViewKind.Notices:
                WriteNotices(json);
                break;
            default:
                break;
        }
    }

    // ------------------------------------------------------------------ connections

    private void WriteConnections(Utf8JsonWriter json, View view, GroupQuestion? question)
    {
        var rows = sample.Select(view, question?.Members, out int page);
        WritePage(json, view, page, sample.Matching);
        json.WriteNumber("connections", sample.Count);
        json.WriteStartArray("rows");
        foreach ((_, _, int index) in rows)
        {
            json.WriteStartObject();
            WriteRow(json, sample[index]);
            json.WriteEndObject();
        }

        json.WriteEndArray();
    }

    private void WriteRow(Utf8JsonWriter json, in Row row)
    {
        Session session = row.Session;
        json.WriteNumber("id", session.Id);
        json.WriteNumber("server", row.Server);
        json.WriteString("peer", Short(StatusSnapshot.TextOf(session.RemoteEndPoint)));
        json.WriteString("type", Short(session.DisplayName));
        json.WriteNumber("loop", session.Loop.Index);
        if (session.ConnectedAt is { } at) json.WriteNumber("ageMs", (long)(_now - at).TotalMilliseconds);
        json.WriteNumber("pending", row.Pending);
        json.WriteNumber("limit", session.SendLimitBytes);
        json.WriteNumber("received", row.Received);
        json.WriteNumber("sent", row.Sent);
        json.WriteNumber("inPerSecond", Math.Round(row.InPerSecond));
        json.WriteNumber("outPerSecond", Math.Round(row.OutPerSecond));
        // JSON has no infinity: a queue that does not move has no time.
        if (double.IsFinite(row.DrainSeconds)) json.WriteNumber("drainSeconds", Math.Round(row.DrainSeconds, 3));
    }

    // ------------------------------------------------------------------ one connection

    private void WriteConnection(Utf8JsonWriter json, Viewer viewer, GroupQuestion? question)
    {
        long id = viewer.View.Id;
        if (viewer.Watched?.Id != id) viewer.Watched = null;
        int index = sample.IndexOf(id);
        if (index >= 0)
        {
            viewer.Watched = sample[index].Session;
            json.WriteString("state", "open");
            WriteRow(json, sample[index]);
            WriteDetails(json, sample[index].Session, question?.Names ?? []);
        }
        else if (ended.Find(id) is { } end)
        {
            json.WriteString("state", "ended");
            WriteEnd(json, end);
        }
        else if (viewer.Watched is { EndReason.Cause: not CloseCause.None } gone)
        {
            json.WriteString("state", "ended");
            WriteEnd(json, new EndedSession(gone.Id, gone.DisplayName, StatusSnapshot.TextOf(gone.RemoteEndPoint),
                gone.ConnectedAt, _now, gone.BytesReceived, gone.BytesSent, gone.EndReason));
        }
        else
        {
            json.WriteString("state", viewer.Watched is null ? "unknown" : "ending");
            json.WriteNumber("id", id);
        }
    }

    private static void WriteDetails(Utf8JsonWriter json, Session session, string[] groups)
    {
        json.WriteString("local", Short(StatusSnapshot.TextOf(session.LocalEndPoint)));
        if (session.ConnectedAt is { } at) json.WriteString("connectedAt", at);
        json.WriteString("scheduling", session.HostScheduling.ToString());
        json.WriteBoolean("isPaused", session.IsReceivingPaused);
        json.WriteBoolean("isAboveHighWaterMark", session.IsAboveHighWaterMark);
        json.WriteNumber("idleTimeoutMs", (long)session.IdleTimeout.TotalMilliseconds);
        json.WriteNumber("receiveTimeoutMs", (long)session.ReceiveTimeout.TotalMilliseconds);
        json.WriteNumber("sendTimeoutMs", (long)session.SendTimeout.TotalMilliseconds);
        if (session.Tls is { } tls)
        {
            json.WriteString("tls", $"{tls.Protocol}, {tls.CipherSuite}{(tls.IsResumed ? ", resumed" : "")}");
            json.WriteString("serverName", Short(tls.ServerName ?? ""));
            json.WriteString("applicationProtocol", Short(tls.ApplicationProtocol ?? ""));
            json.WriteString("peerCertificate", Short(tls.PeerCertificate?.Subject ?? ""));
        }

        json.WriteStartArray("groups");
        foreach (string group in groups) json.WriteStringValue(Short(group));
        json.WriteEndArray();
    }

    // ------------------------------------------------------------------ groups

    private void WriteGroups(Utf8JsonWriter json, View view)
    {
        Cluster[] clusters = [.. engines.SelectMany(ClusterMetrics.NodesOn)];
        List<(string Name, long Members, long Server, SessionGroup? Group, Cluster? Cluster)> all = [];
        foreach (Server.Host host in servers)
        {
            foreach (SessionGroup group in ((Server)host.Owner).Groups)
            {
                if (Matches(group.Name, view)) all.Add((group.Name, group.Count, host.Id, group, null));
            }
        }

        foreach (Cluster cluster in clusters)
        {
            foreach ((string name, long members) in cluster.CountMembers())
            {
                if (Matches(name, view)) all.Add((name, members, 0, null, cluster));
            }
        }

        all.Sort(static (a, b) => b.Members.CompareTo(a.Members) is var byMembers && byMembers != 0
            ? byMembers
            : string.CompareOrdinal(a.Name, b.Name));
        int page = Math.Min(view.Page, Math.Max(0, all.Count - 1) / view.Rows);
        WritePage(json, view, page, all.Count);
        WriteNodes(json, clusters);
        json.WriteStartArray("rows");
        foreach ((string name, long members, long server, SessionGroup? group, Cluster? cluster) in
            all.Skip(page * view.Rows).Take(view.Rows))
        {
            json.WriteStartObject();
            json.WriteString("name", Short(name));
            json.WriteNumber("members", members);
            if (group is not null) WriteLoops(json, server, group);
            else if (cluster is not null) WriteMembersOfNodes(json, cluster, name);
            json.WriteEndObject();
        }

        json.WriteEndArray();
    }

    private static bool Matches(string name, View view) =>
        view.Filter.Length == 0 || name.Contains(view.Filter, StringComparison.OrdinalIgnoreCase);

    private void WriteLoops(Utf8JsonWriter json, long server, SessionGroup group)
    {
        json.WriteNumber("server", server);
        json.WriteBoolean("isCongested", group.IsCongested);
        json.WriteStartArray("loops");
        foreach (Engine engine in engines)
        {
            for (int i = 0; i < engine.LoopCount; i++) json.WriteNumberValue(group.CountOn(engine.GetLoop(i)));
        }

        json.WriteEndArray();
    }

    private static void WriteMembersOfNodes(Utf8JsonWriter json, Cluster cluster, string name)
    {
        json.WriteString("node", GroupQuestion.NameOf(cluster));
        json.WriteStartArray("nodes");
        foreach (NodePresence presence in cluster.Group(name).ReadPresence().Take(View.MostRows))
        {
            json.WriteStartObject();
            json.WriteString("node", Short(presence.Node));
            json.WriteNumber("members", presence.Count);
            json.WriteEndObject();
        }

        json.WriteEndArray();
    }

    private static void WriteNodes(Utf8JsonWriter json, Cluster[] clusters)
    {
        json.WriteStartArray("clusters");
        foreach (Cluster cluster in clusters)
        {
            json.WriteStartObject();
            json.WriteString("node", GroupQuestion.NameOf(cluster));
            json.WriteBoolean("hasPresence", cluster.HasPresence);
            json.WriteString("state", cluster.State.ToString());
            json.WriteString("reason", Short(cluster.StateReason));
            json.WriteEndObject();
        }

        json.WriteEndArray();
    }

    // ------------------------------------------------------------------ ends and notices

    private void WriteEnded(Utf8JsonWriter json, View view)
    {
        List<EndedSession> all = ended.Read();
        if (view.Filter.Length > 0)
            all.RemoveAll(e => !$"{e.Peer} {e.Type} {e.Reason.Cause}".Contains(view.Filter,
                StringComparison.OrdinalIgnoreCase));
        int page = Math.Min(view.Page, Math.Max(0, all.Count - 1) / view.Rows);
        WritePage(json, view, page, all.Count);
        json.WriteNumber("ends", ended.Count);
        json.WriteNumber("kept", EndedSessions.Most);
        json.WriteStartArray("rows");
        foreach (EndedSession end in all.Skip(page * view.Rows).Take(view.Rows))
        {
            json.WriteStartObject();
            WriteEnd(json, end);
            json.WriteEndObject();
        }

        json.WriteEndArray();
    }

    private static void WriteEnd(Utf8JsonWriter json, EndedSession end)
    {
        json.WriteNumber("id", end.Id);
        json.WriteString("peer", Short(end.Peer));
        json.WriteString("type", Short(end.Type));
        json.WriteString("endedAt", end.EndedAt);
        if (end.ConnectedAt is { } at) json.WriteNumber("lastedMs", (long)(end.EndedAt - at).TotalMilliseconds);
        json.WriteNumber("received", end.Received);
        json.WriteNumber("sent", end.Sent);
        json.WriteString("cause", end.Reason.Cause.ToString());
        json.WriteString("initiator", end.Reason.Initiator.ToString());
        json.WriteBoolean("isGraceful", end.Reason.IsGraceful);
        json.WriteNumber("bytesLost", end.Reason.BytesLost);
        json.WriteString("reason", Short(end.Reason.ToString()));
    }

    private void WriteNotices(Utf8JsonWriter json)
    {
        json.WriteNumber("kept", RecentNotices.Most);
        json.WriteStartArray("rows");
        foreach (RecentNotice notice in engines.SelectMany(static e => e.RecentNotices.Read())
            .OrderByDescending(static n => n.At))
        {
            json.WriteStartObject();
            json.WriteString("at", notice.At);
            json.WriteString("kind", notice.Kind.ToString());
            json.WriteString("message", notice.Message);
            json.WriteString("page", Path.GetFileNameWithoutExtension(notice.Page));
            json.WriteEndObject();
        }

        json.WriteEndArray();
    }

    // ------------------------------------------------------------------ parts

    private static void WritePage(Utf8JsonWriter json, View view, int page, int matching)
    {
        json.WriteNumber("page", page);
        json.WriteNumber("pages", Math.Max(1, (matching + view.Rows - 1) / view.Rows));
        json.WriteNumber("matching", matching);
    }

    private static string Short(string text) => text.Length <= MostText ? text : $"{text[..MostText]}...";
}
