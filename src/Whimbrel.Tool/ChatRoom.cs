using System.Collections.Concurrent;
using System.Text;
using Whimbrel.Clusters;
using Whimbrel.Http;

namespace Whimbrel.Tool;

/// <summary>
/// Users of the chat with their names, and broadcasts to them. Shared by the sessions of all loops. In a cluster it is
/// the local part of the room, with names of its own, and each line begins with the name of its node.
/// </summary>
internal sealed class ChatRoom
{
    private const int NamesInList = 50;

    private readonly ConcurrentDictionary<string, Session> _byName = new(StringComparer.OrdinalIgnoreCase);
    private readonly SessionGroup _everybody = new("chat");
    private ClusterGroup? _everywhere; // set before the first user enters
    private string _mark = "";
    private long _lines;

    /// <summary>Number of lines broadcast so far.</summary>
    internal long Lines => Interlocked.Read(ref _lines);

    internal int Count => _byName.Count;

    /// <summary>Enters under a default name and returns the name.</summary>
    internal string Enter(Session session)
    {
        // Another user may have taken the default name.
        string name = $"guest{session.Id}";
        for (int i = 2; !_byName.TryAdd(name, session); i++) name = $"guest{session.Id}-{i}";
        _everybody.Join(session);
        _everywhere?.Join(session);
        return name;
    }

    /// <summary>Joins the rooms of other nodes. Call it before the server starts, with its engine started.</summary>
    /// <param name="server">Server of this room.</param>
    /// <param name="address">Address of the broker.</param>
    /// <param name="node">Name of this node, or null for a random one.</param>
    /// <returns>Node, which the caller disposes.</returns>
    internal async Task<Cluster> JoinAsync(Server server, string address, string? node)
    {
        NatsBus.Register(new NatsOptions { OnTrouble = TellOperator });
        RedisBus.Register(new RedisOptions { OnTrouble = TellOperator });
        RabbitMqBus.Register(new RabbitMqOptions { OnTrouble = TellOperator });
        Cluster cluster = await Cluster.JoinAsync(server, address, new ClusterOptions
        {
            Application = "whimbrel-chat",
            NodeId = node,
            Deliver = static (members, payload, except) => members.BroadcastText(payload, except),
            OnGap = TellGap,
            OnStateChanged = static (state, why) => TellOperator($"{state.ToString().ToLowerInvariant()}. {why}"),
            OnTwin = TellOperator,
        });
        _mark = $"[{cluster.NodeId}] ";
        _everywhere = cluster.Group("room");
        return cluster;
    }

    internal bool TryRename(Session session, string old, string name)
    {
        if (string.Equals(old, name, StringComparison.OrdinalIgnoreCase)) return true;
        if (!_byName.TryAdd(name, session)) return false;
        _byName.TryRemove(old, out _);
        return true;
    }

    internal void Leave(string name) => _byName.TryRemove(name, out _);

    internal SendResult Say(Session speaker, string name, string text)
    {
        Interlocked.Increment(ref _lines);
        return Tell($"{name}: {text}\n", speaker);
    }

    internal void Announce(string text, Session? except = null) => Tell($"* {text}\n", except);

    internal string List()
    {
        string[] names = [.. _byName.Keys.Order(StringComparer.OrdinalIgnoreCase)];
        string more = names.Length > NamesInList ? $" and {names.Length - NamesInList} more" : "";
        return $"{names.Length} here: {string.Join(", ", names.Take(NamesInList))}{more}";
    }

    private static void TellOperator(string what) => Console.Error.WriteLine($"cluster: {what}");

    private SendResult Tell(string line, Session? except)
    {
        byte[] utf8 = Encoding.UTF8.GetBytes(_mark + line);
        return _everywhere is { } everywhere
            ? everywhere.Broadcast(utf8, except)
            : _everybody.BroadcastText(utf8, except);
    }

    private void TellGap(ClusterGap gap)
    {
        string what = $"{_mark}* {gap.Missed} {(gap.Missed == 1 ? "line" : "lines")} of {gap.Node} "
            + $"{(gap.Missed == 1 ? "is" : "are")} lost\n";
        _everybody.BroadcastText(Encoding.UTF8.GetBytes(what));
    }
}
