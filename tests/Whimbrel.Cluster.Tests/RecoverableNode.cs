using System.Net;
using System.Net.Sockets;
using System.Text;
using Whimbrel.Clusters;

namespace Whimbrel.Tests;

// A node on its own engine, with one recoverable group. Its guests connect over loopback and receive lines
// "offset:text".
internal sealed class RecoverableNode : IAsyncDisposable
{
    private readonly Engine _engine = new(new EngineOptions { Loops = 1 });
    private readonly List<Guest> _guests = [];
    private volatile TaskCompletionSource<Session>? _expected;
    private Server? _server;
    private Cluster? _cluster;

    internal RecoverableGroup Group { get; private set; } = null!;

    internal List<(GroupPosition At, ResumeOutcome Why)> Broken { get; } = [];

    internal static async Task<RecoverableNode> StartAsync(IGroupBus bus, string name)
    {
        RecoverableNode node = new();
        await node._engine.StartAsync();
        node._server =
            new Server(new ServerOptions { Engine = node._engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) },
                () => new Member(node));
        await node._server.StartAsync();
        node._cluster = await Cluster.JoinAsync(node._server, bus,
            new ClusterOptions { Application = "test", NodeId = name });
        node.Group = node._cluster.RecoverableGroup("g", new RecoverableOptions
        {
            Deliver =
                static (members, at, payload) => members.Broadcast($"{at.Offset}:{Encoding.UTF8.GetString(payload)}\n"),
            OnBroken = (_, at, why) =>
            {
                lock (node.Broken) node.Broken.Add((at, why));
            },
        });
        return node;
    }

    internal void Say(string text) => Assert.Equal(SendResult.Queued, Group.Broadcast(text));

    internal async Task<(Guest Guest, GroupPosition At)> JoinAsync()
    {
        (Guest guest, Session session) = await ConnectAsync();
        ResumeResult result = await UntilAnsweredAsync(() => Group.JoinAsync(session));
        Assert.Equal(ResumeOutcome.Recovered, result.Outcome);
        return (guest, result.Position);
    }

    internal async Task<(Guest Guest, ResumeResult Result)> ResumeAsync(GroupPosition from)
    {
        (Guest guest, Session session) = await ConnectAsync();
        return (guest, await UntilAnsweredAsync(() => Group.ResumeAsync(session, from)));
    }

    public async ValueTask DisposeAsync()
    {
        foreach (Guest guest in _guests) await guest.DisposeAsync();
        if (_cluster is not null) await _cluster.DisposeAsync();
        if (_server is not null) await _server.DisposeAsync();
        await _engine.DisposeAsync();
    }

    private static async Task<ResumeResult> UntilAnsweredAsync(Func<Task<ResumeResult>> ask)
    {
        while (true)
        {
            ResumeResult result = await ask().WaitAsync(BusNode.Patience);
            // A restarted broker may not respond yet.
            if (result.Outcome != ResumeOutcome.Unavailable) return result;
        }
    }

    private async Task<(Guest Guest, Session Session)> ConnectAsync()
    {
        TaskCompletionSource<Session> expected = new(TaskCreationOptions.RunContinuationsAsynchronously);
        _expected = expected;
        TcpClient client = new();
        await client.ConnectAsync((IPEndPoint)_server!.EndPoint!);
        Guest guest = new(client);
        _guests.Add(guest);
        return (guest, await expected.Task.WaitAsync(BusNode.Patience));
    }

    private sealed class Member(RecoverableNode node) : Session
    {
        protected override void OnConnected() => node._expected!.SetResult(this);
    }

    internal sealed class Guest : IAsyncDisposable
    {
        private readonly List<string> _heard = [];
        private readonly SemaphoreSlim _news = new(0);
        private readonly TcpClient _client;
        private readonly Task _reading;

        internal Guest(TcpClient client)
        {
            _client = client;
            _reading = Task.Run(ReadAsync);
        }

        internal string[] Heard
        {
            get
            {
                lock (_heard) return [.. _heard];
            }
        }

        internal async Task UntilAsync(int count)
        {
            while (Heard.Length < count)
                Assert.True(await _news.WaitAsync(BusNode.Patience), $"{Heard.Length} of {count} came");
        }

        public async ValueTask DisposeAsync()
        {
            _client.Dispose();
            await _reading.WaitAsync(BusNode.Patience);
            _news.Dispose();
        }

        private async Task ReadAsync()
        {
            try
            {
                using StreamReader reader = new(_client.GetStream());
                while (await reader.ReadLineAsync() is { } line)
                {
                    lock (_heard) _heard.Add(line);
                    _news.Release();
                }
            }
            catch (Exception e) when (e is IOException or ObjectDisposedException)
            {
                // Disposed.
            }
        }
    }
}
