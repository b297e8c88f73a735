using System.Text;
using Whimbrel.Clusters;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

// A server with its cluster node, on an engine in virtual time, and the members connected to it.
internal sealed class TestNode
{
    private readonly MemoryEngine _engine;
    private readonly MemoryEndPoint _here;
    private readonly List<Member> _sessions = [];

    internal TestNode(MemoryEngine engine, MemoryBus bus, string name,
        Func<ClusterOptions, ClusterOptions>? change = null)
    {
        _engine = engine;
        _here = new MemoryEndPoint(name);
        Server = new Server(new ServerOptions { Engine = engine, EndPoint = _here }, () =>
        {
            Member session = new();
            _sessions.Add(session);
            return session;
        });
        engine.Run(Server.StartAsync());
        Link = new CountedBus(bus.Connect());
        Cluster = engine.Run(Cluster.JoinAsync(Server, Link, OptionsFor(name)));
        engine.RunUntil(() => Cluster.State == ClusterState.Healthy);

        ClusterOptions OptionsFor(string id)
        {
            ClusterOptions plain =
                new() { Application = "test", NodeId = id, OnGap = Gaps.Add, OnStateChanged = Report };
            return change is null ? plain : change(plain);
        }
    }

    internal Server Server { get; }

    internal CountedBus Link { get; }

    internal Cluster Cluster { get; }

    internal List<ClusterGap> Gaps { get; } = [];

    internal List<ClusterState> States { get; } = [];

    internal List<string> Reasons { get; } = [];

    internal List<Member> Members => _sessions;

    internal Member Connect(string group)
    {
        Member member = Connect();
        Cluster.Group(group).Join(member);
        return member;
    }

    internal Member Connect()
    {
        MemoryPeer peer = _engine.Connect(_here);
        int before = Server.Sessions.Count;
        _engine.RunUntil(() => Server.Sessions.Count == before + 1);
        Member member = _sessions[^1];
        member.Peer = peer;
        return member;
    }

    private void Report(ClusterState state, string reason)
    {
        States.Add(state);
        Reasons.Add(reason);
    }

    internal void End()
    {
        _engine.Run(Cluster.DisposeAsync());
        _engine.Run(Server.StopAsync(TimeSpan.Zero));
    }

    internal sealed class Member : Session
    {
        private readonly StringBuilder _heard = new();

        internal MemoryPeer? Peer { get; set; }

        // What its peer has received so far: messages that end with a space.
        internal string Heard
        {
            get
            {
                byte[] buffer = new byte[4096];
                for (int read; (read = Peer!.Read(buffer)) > 0;)
                    _heard.Append(Encoding.ASCII.GetString(buffer, 0, read));
                return _heard.ToString();
            }
        }
    }
}
