using System.Net;
using System.Text;

namespace Whimbrel.Tests.Nats;

// A server that sends scripted text to every client, and records what it receives.
internal sealed class SaidServer : IAsyncDisposable
{
    private readonly Server _server;
    private readonly StringBuilder _heard = new();
    private readonly List<Session> _guests = [];
    private readonly Queue<string> _replies = new();

    private SaidServer(Engine engine, string greeting, string answer)
    {
        Greeting = greeting;
        _server = new Server(new ServerOptions
        {
            Engine = engine,
            EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
            Limits = new() { SendBytes = 64 << 20 }
        }, () => new Guest(this, Greeting, answer));
    }

    internal string Address => $"nats://node:secret@{_server.EndPoint}";

    // Sent to the clients that connect from now on.
    internal string Greeting { get; set; }

    internal string Heard
    {
        get
        {
            lock (_heard) return _heard.ToString();
        }
    }

    internal static async Task<SaidServer> StartAsync(Engine engine, string greeting, string answer = "")
    {
        SaidServer server = new(engine, greeting, answer);
        await server._server.StartAsync();
        return server;
    }

    // Sends to all connected clients.
    internal Task SayAsync(string text) => AllAsync(guest => Assert.Equal(SendResult.Queued, guest.Send(text)));

    // Response to the next request; otherwise there is none.
    internal void Reply(string payload)
    {
        lock (_replies) _replies.Enqueue(payload);
    }

    // Stops reading and responding.
    internal Task FallSilentAsync() => AllAsync(static guest => guest.PauseReceiving());

    // Ends all connections.
    internal Task LoseAsync() => AllAsync(static guest => guest.Abort());

    public ValueTask DisposeAsync() => _server.DisposeAsync();

    private async Task AllAsync(Action<Session> action) => await _server.Engine.GetLoop(0).PostAsync(() =>
    {
        Session[] guests;
        lock (_guests) guests = [.. _guests];
        foreach (Session guest in guests) action(guest);
    });

    private sealed class Guest(SaidServer server, string greeting, string answer) : Session
    {
        private string _inbox = "";

        protected override void OnConnected()
        {
            lock (server._guests) server._guests.Add(this);
            Send(greeting);
        }

        protected override void OnDisconnected(CloseReason reason)
        {
            lock (server._guests) server._guests.Remove(this);
        }

        protected override void OnReceived(ReadOnlySpan<byte> data)
        {
            string text = Encoding.Latin1.GetString(data);
            lock (server._heard) server._heard.Append(text);
            if (text.Contains("PING", StringComparison.Ordinal)) Send(answer);
            foreach (string line in text.Split("\r\n"))
            {
                string[] words = line.Split(' ');
                if (words is ["SUB", _, { } number] && words[1].StartsWith("_INBOX.", StringComparison.Ordinal))
                    _inbox = number;
                string? reply = null;
                lock (server._replies) if (words is ["PUB", _, _, _]) server._replies.TryDequeue(out reply);
                if (reply is not null) Send($"MSG {words[2]} {_inbox} {reply.Length}\r\n{reply}\r\n");
            }
        }
    }
}
