using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Whimbrel.Http.Tests.Serving;

// What clients of HTTP and WebSocket see when a new process has taken the sockets of the server, and it drains.
public sealed class UpgradeTests
{
    private static CancellationToken Cancel => TestContext.Current.CancellationToken;

    [Fact]
    public async Task WebSockets_close_with_1012_and_answers_with_Connection_close_before_their_session_is_asked()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Upgrades of a process need Linux.");
        string path = Path.Combine(Path.GetTempPath(), $"whimbrel-{Guid.NewGuid():n}");
        await using ProcessUpgrade first = new(path), second = new(path);
        await using Engine engine = new(new EngineOptions { Kind = EngineKind.Epoll, Loops = 1 });
        await using HttpServer old = Make(engine, first), fresh = Make(engine, second);
        await old.StartAsync(Cancel);
        await first.ReadyAsync(Cancel);
        int port = ((IPEndPoint)old.EndPoint!).Port;
        List<Guest> guests = [];
        await using WebSocketClient handled = Client("handler"), plain = Client("session");
        foreach (WebSocketClient client in (WebSocketClient[])[handled, plain])
            guests.Add((Guest)await client.ConnectAsync(Cancel));
        using TcpClient http = new();
        await http.ConnectAsync(IPAddress.Loopback, port, Cancel);
        Assert.DoesNotContain("Connection:", await AskAsync(http), StringComparison.Ordinal);
        await fresh.StartAsync(Cancel);
        await second.ReadyAsync(Cancel);
        await first.Replaced.WaitAsync(TimeSpan.FromSeconds(30), Cancel);
        Task<StopReport> stop = old.StopAsync().AsTask();
        // The last of three sessions is asked after two thirds of the window, which is minutes.
        Assert.Contains("Connection: close\r\n", await AskAsync(http), StringComparison.Ordinal);
        Guest oldest = guests[0];
        await oldest.Ended.Task.WaitAsync(TimeSpan.FromSeconds(30), Cancel);
        await old.StopAsync(TimeSpan.FromSeconds(20));
        await guests[1].Ended.Task.WaitAsync(TimeSpan.FromSeconds(30), Cancel);
        foreach (Guest guest in guests)
        {
            Assert.Equal(WebSocketStatus.ServiceRestart, guest.CloseStatus);
            Assert.Matches("^retry-after-ms=[0-9]{1,3}$", guest.CloseText);
        }

        Assert.Equal((3, 0), ((await stop).Drained, (await stop).Aborted));

        WebSocketClient Client(string route) => new($"ws://127.0.0.1:{port}/{route}", static () => new Guest());
    }

    private static HttpServer Make(Engine engine, ProcessUpgrade upgrade)
    {
        HttpServer server = new(new ServerOptions
        {
            Engine = engine,
            EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
            Timeouts = new() { DrainWindow = TimeSpan.FromMinutes(10) },
            Upgrade = upgrade,
        });
        server.Get("/", static (_, response) => response.Text("good"));
        server.WebSocket("/handler", static async (socket, stop) =>
        {
            while (await socket.ReceiveMessageAsync(stop) is not null)
            {
            }
        });
        server.WebSocket("/session", static () => new Guest());
        return server;
    }

    private static async Task<string> AskAsync(TcpClient client)
    {
        await client.GetStream().WriteAsync("GET / HTTP/1.1\r\nHost: here\r\n\r\n"u8.ToArray(), Cancel);
        StringBuilder answer = new();
        byte[] buffer = new byte[4096];
        while (!answer.ToString().EndsWith("good", StringComparison.Ordinal))
        {
            int count = await client.GetStream().ReadAsync(buffer, Cancel);
            Assert.NotEqual(0, count);
            answer.Append(Encoding.ASCII.GetString(buffer, 0, count));
        }

        return answer.ToString();
    }

    private sealed class Guest : WebSocketSession
    {
        internal TaskCompletionSource Ended { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);

        protected override void OnDisconnected(CloseReason reason)
        {
            base.OnDisconnected(reason);
            Ended.SetResult();
        }
    }
}
