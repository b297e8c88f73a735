using System.Collections.Concurrent;
using System.Net;
using System.Net.Sockets;
using System.Text;
using Whimbrel.Http;
using Whimbrel.Tool.Tests;

namespace Whimbrel.Dashboard.Tests;

// One engine with a server for sessions and an HTTP server with the dashboard at /whimbrel.
internal sealed class Site : IAsyncDisposable
{
    public const string Token = "0123456789abcdef-token";

    private readonly List<Socket> _sockets = [];

    private Site(DashboardOptions? options, string address, TlsOptions? tls, TlsOptions? sessionTls)
    {
        Engine = new Engine(new EngineOptions { Loops = 2, OnDiagnosticEvent = Notices.Enqueue, BlockedLoopMs = 100 });
        Server = new Server(new ServerOptions
        {
            Engine = Engine,
            Address = sessionTls is null ? "tcp://127.0.0.1:0" : "tls://127.0.0.1:0",
            Tls = sessionTls,
            Limits = new() { SendBytes = 64 << 20 },
        }, static () => new Echo());
        Web = new HttpServer(new ServerOptions { Address = address, Engine = Engine, Tls = tls });
        Web.AddDashboard("/whimbrel", options);
    }

    public Engine Engine { get; }

    public Server Server { get; }

    public HttpServer Web { get; }

    public ConcurrentQueue<DiagnosticEvent> Notices { get; } = new();

    public int Port => ((IPEndPoint)Web.EndPoint!).Port;

    public string Root => $"http://127.0.0.1:{Port}/whimbrel";

    public static CancellationToken End => TestContext.Current.CancellationToken;

    public static async Task<Site> StartAsync(DashboardOptions? options = null, string address = "http://127.0.0.1:0",
        TlsOptions? tls = null, TlsOptions? sessionTls = null)
    {
        Site site = new(options, address, tls, sessionTls);
        await site.Server.StartAsync(End);
        await site.Web.StartAsync(End);
        return site;
    }

    // A client of the server for sessions, once its session is connected.
    public async Task<(Socket Socket, Session Session)> ConnectAsync()
    {
        Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        _sockets.Add(socket);
        await socket.ConnectAsync(Server.EndPoint!, End);
        await socket.SendAsync("id"u8.ToArray(), End);
        byte[] answer = new byte[20];
        await ReadAsync(socket, answer);
        long id = long.Parse(Encoding.ASCII.GetString(answer), System.Globalization.CultureInfo.InvariantCulture);
        return (socket, Server.FindSession(id)!);
    }

    private static async Task ReadAsync(Socket socket, byte[] into)
    {
        for (int at = 0; at < into.Length;)
        {
            int count = await socket.ReceiveAsync(into.AsMemory(at), End);
            Assert.NotEqual(0, count);
            at += count;
        }
    }

    public Task<Page> OpenAsync(string? bearer = null) =>
        Page.OpenAsync($"ws://127.0.0.1:{Port}/whimbrel/live", bearer);

    public Task<HttpResponseMessage> GetAsync(string path, params (string Name, string Value)[] fields) =>
        SendAsync(HttpMethod.Get, path, fields);

    public async Task<HttpResponseMessage> SendAsync(HttpMethod method, string path,
        params (string Name, string Value)[] fields)
    {
        using HttpClient client = new(new SocketsHttpHandler { AllowAutoRedirect = false, UseCookies = false });
        using HttpRequestMessage request = new(method, path.StartsWith("http", StringComparison.Ordinal)
            ? path
            : Root + path);
        foreach ((string name, string value) in fields)
        {
            if (name == "token")
                request.Content = new FormUrlEncodedContent([new KeyValuePair<string, string>(name, value)]);
            else request.Headers.TryAddWithoutValidation(name, value);
        }

        return await Deadline.Within(stop => client.SendAsync(request, stop), () => $"{method} {path}");
    }

    public static async Task<string> TextOf(HttpResponseMessage answer) => await answer.Content.ReadAsStringAsync(End);

    public static Task UntilAsync(Func<bool> isSo, string what) => Deadline.Within(
        async stop =>
        {
            // tidy: waits because the state is polled
            while (!isSo()) await Task.Delay(5, stop);
            return true;
        },
        () => what);

    // Waits until a diagnostic event has this text.
    public async Task<DiagnosticEvent> NoticeAsync(string text) => await Deadline.Within(
        async stop =>
        {
            while (true)
            {
                foreach (DiagnosticEvent notice in Notices)
                {
                    if (notice.Message.Contains(text, StringComparison.Ordinal)) return notice;
                }

                // tidy: waits because the notices are polled
                await Task.Delay(5, stop);
            }
        },
        () => $"the notice \"{text}\"; there were:\n{string.Join('\n', Notices)}");

    public async ValueTask DisposeAsync()
    {
        foreach (Socket socket in _sockets) socket.Dispose();
        await Web.StopAsync(TimeSpan.FromSeconds(5));
        await Server.StopAsync(TimeSpan.FromSeconds(5));
        await Web.DisposeAsync();
        await Server.DisposeAsync();
        await Engine.DisposeAsync();
    }

    // "id" gives the session's id in 20 characters, "join NAME" joins a group, "block" blocks the loop, "flood" fills
    // the send queue, "bye" throws.
    private sealed class Echo : Session
    {
        protected override void OnReceived(ReadOnlySpan<byte> data)
        {
            string text = Encoding.UTF8.GetString(data);
            if (text == "id") Send($"{Id,20}");
            else if (text.StartsWith("join ", StringComparison.Ordinal)) Server!.Groups[text[5..]].Join(this);
            else if (text == "block") Thread.Sleep(1500); // tidy: waits because the test is about a blocked loop
            else if (text == "flood") for (int i = 0; i < 64; i++) Send(new byte[256 * 1024]);
            else if (text == "bye") throw new InvalidOperationException("asked for");
            else Send(data);
        }
    }
}
