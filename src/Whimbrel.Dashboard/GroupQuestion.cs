using System.Text;
using Whimbrel.Clusters;
using Whimbrel.Connections;

namespace Whimbrel.Dashboard;

/// <summary>
/// A question that only loops can answer, for one page: the members of a group, or the groups of a connection. Each
/// loop adds its part.
/// </summary>
internal sealed class GroupQuestion
{
    /// <summary>Most groups of a connection that are named.</summary>
    private const int MostNames = 50;

    private const int MostClusterName = 256;

    private readonly Lock _gate = new();
    private readonly HashSet<long> _members = [];
    private readonly List<string> _names = [];
    private readonly SessionGroup? _group;
    private readonly ClusterGroup? _clusterGroup;
    private readonly Session? _session;

    private GroupQuestion(SessionGroup? group, ClusterGroup? clusterGroup, Session? session)
    {
        _group = group;
        _clusterGroup = clusterGroup;
        _session = session;
    }

    /// <summary>Returns the question of a page's view, or null.</summary>
    internal static GroupQuestion? For(Viewer viewer, Engine[] engines)
    {
        View view = viewer.View;
        if (view.Kind == ViewKind.Connection)
            return FindSession(engines, view.Id) is { } session ? new GroupQuestion(null, null, session) : null;
        if (view.Kind != ViewKind.Connections || view.Group is not { } name) return null;
        if (view.Node is { } node)
        {
            // A longer name is no group of a cluster, and Group throws for it.
            Cluster? cluster = Encoding.UTF8.GetByteCount(name) > MostClusterName
                ? null
                : engines.SelectMany(ClusterMetrics.NodesOn).FirstOrDefault(c => NameOf(c) == node);
            return new GroupQuestion(null, cluster?.Group(name), null);
        }

        SessionGroup? group = null;
        FindServer(engines, view.Server)?.Groups.TryGet(name, out group);
        // Also for a group that has ended, so that no connection is shown instead of all.
        return new GroupQuestion(group, null, null);
    }

    /// <summary>Ids of the members on the loops that have answered. A copy.</summary>
    internal HashSet<long> Members
    {
        get
        {
            lock (_gate) return [.. _members]; // tidy: allowed because the sampler reads it once in each sample
        }
    }

    /// <summary>Names of the connection's groups. A copy.</summary>
    internal string[] Names
    {
        get
        {
            lock (_gate) return [.. _names]; // tidy: allowed because the sampler reads it once in each sample
        }
    }

    internal void AnswerOn(Loop loop)
    {
        List<long> members = [];
        if (_group is { } group)
        {
            foreach (Session member in group.MembersHere) members.Add(member.Id);
        }
        else if (_clusterGroup is { } clusterGroup)
        {
            foreach (Session member in clusterGroup.MembersHere) members.Add(member.Id);
        }

        string[] names = _session is { } session && ReferenceEquals(session.Loop, loop)
            ? [.. session.Groups.Take(MostNames).Select(static g => g.Name)]
            : [];
        lock (_gate) // tidy: allowed because the sampler alone competes, once in each sample
        {
            _members.UnionWith(members);
            _names.AddRange(names);
        }
    }

    internal static Server.Host? FindHost(IEnumerable<Engine> engines, long id) =>
        engines.SelectMany(ServerMetrics.ServersOf).FirstOrDefault(host => host.Id == id);

    internal static Server? FindServer(IEnumerable<Engine> engines, long id) =>
        (Server?)FindHost(engines, id)?.Owner;

    /// <summary>Returns a connected session of a server or client, or null.</summary>
    internal static Session? FindSession(IEnumerable<Engine> engines, long id) =>
        engines.SelectMany(ServerMetrics.ServersOf).Select(host => host.Find(id)).FirstOrDefault(s => s is not null)
            ?? ClientSessionsOf(engines).Find(session => session.Id == id);

    /// <summary>Returns the connected sessions of clients. Visits all connections.</summary>
    internal static List<Session> ClientSessionsOf(IEnumerable<Engine> engines)
    {
        List<Session> sessions = [];
        foreach (Engine engine in engines)
        {
            for (int i = 0; i < engine.LoopCount; i++) Connection.AddClientSessions(engine.GetLoop(i), sessions);
        }

        return sessions;
    }

    /// <summary>Name of a node for the page: two clusters of a process may have the same ids of nodes.</summary>
    internal static string NameOf(Cluster cluster) => $"{cluster.Application}/{cluster.NodeId}";
}
