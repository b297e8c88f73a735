using System.Collections.Concurrent;
using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Whimbrel.Http.Tests.Serving;

// The state of a request is reused for other requests, of any connection (ServerExchange). Clients end in every
// possible way, and handlers continue after that: no request may see a byte of another. Each request carries a unique
// token in its path, in a field and in its body.
public sealed class MingledTests
{
    private const int Clients = 12;
    private static readonly int s_connectionsOfClient = Depth.Of(16, deep: 16);
    private const int LargeBytes = 3_000_000;

    [Theory, MemberData(nameof(EngineTests.PlainKinds), MemberType = typeof(EngineTests))]
    public async Task State_of_a_request_is_not_visible_to_another(EngineKind kind, Scheduling scheduling)
    {
        int seed = Environment.TickCount;
        TestContext.Current.TestOutputHelper!.WriteLine($"seed {seed}");
        ConcurrentQueue<string> wrong = [];
        await using EngineSite site = new(kind, isTls: false, scheduling,
            new HttpOptions { SendTimeout = TimeSpan.FromMilliseconds(300), MinBytesPerSecond = 0 });
        int atWork = 0;
        Handle(site.Server, wrong, change => Interlocked.Add(ref atWork, change));
        await site.StartAsync();
        await Parallel.ForAsync(0, Clients, new ParallelOptions
        {
            MaxDegreeOfParallelism = Clients,
            CancellationToken = TestContext.Current.CancellationToken
        }, async (client, _) =>
        {
            Random random = new(seed + client);
            for (int i = 0; i < s_connectionsOfClient; i++)
            {
                try
                {
                    if (await Ask(site.Server.EndPoint!, random, $"c{client}n{i}") is { } mistake)
                        wrong.Enqueue(mistake);
                }
                catch (TimeoutException e)
                {
                    wrong.Enqueue(e.Message);
                }
            }
        });
        Assert.True(SpinWait.SpinUntil(() => site.Server.SessionCount == 0 && Volatile.Read(ref atWork) == 0,
            EngineSite.Patience), $"{site.Server.SessionCount} sessions, {atWork} handlers");
        Assert.True(wrong.IsEmpty, $"seed {seed}: {string.Join(Environment.NewLine, wrong.Take(5))}");
    }

    // ------------------------------------------------------------------ the server

    private static void Handle(HttpServer server, ConcurrentQueue<string> wrong, Action<int> count)
    {
        server.Get("/sync/{token}", static (request, response) =>
        {
            response.Add("X-Token", request["X-Token"]!);
            response.Text(request.Route["token"]);
        });
        server.Post("/kept/{token}", static (request, response) => response.Bytes(request.BodyBytes, "text/plain"u8));
        server.Get("/later/{token}", Work(static async (_, request, response) =>
        {
            response.Add("X-Token", request["X-Token"]!);
            await Task.Run(static () => { });
            response.Text(request.Route["token"]);
        }));
        server.Get("/pieces/{token}", Work(static async (token, request, response) =>
        {
            response.Add("X-Token", token);
            foreach (char c in request.Route["token"])
            {
                await response.WriteAsync(new[] { (byte)c });
                if (c == 'n') await Task.Yield();
                await response.FlushAsync();
            }
        }));
        server.Post("/stream/{token}", Work(static async (_, request, response) =>
        {
            await Task.Yield();
            response.Bytes((await request.ReadBodyAsync()).Span, "text/plain"u8);
        }));
        server.Get("/throw/{token}", Work(static async (token, _, response) =>
        {
            response.Add("X-Token", token);
            await Task.Yield();
            throw new InvalidDataException(token);
        }));
        // Its peer disconnects, or stops reading, while the handler runs; the handler continues afterwards.
        server.Get("/gone/{token}", async (request, response, stop) =>
        {
            count(1);
            string token = request.Route["token"];
            try
            {
                await response.WriteAsync(new byte[LargeBytes], stop);
            }
            catch (Exception e) when (e is IOException or OperationCanceledException)
            {
            }

            for (int i = 0; i < 20; i++)
            {
                await Task.Yield();
                try
                {
                    if (request.Route["token"] != token || request["X-Token"] != token)
                        wrong.Enqueue($"the handler of {token} sees {request.Route["token"]} and {request["X-Token"]}");
                }
                catch (InvalidOperationException)
                {
                    wrong.Enqueue($"the handler of {token} sees nothing");
                }
            }

            count(-1);
        });
        server.Get("/switch/{token}", async (request, response, _) =>
        {
            count(1);
            response.SwitchProtocol("echo", new Echo());
            for (int i = 0; i < 20; i++) await Task.Yield();
            count(-1);
        });

        // The state at the end must equal the state at the beginning.
        Func<HttpRequest, HttpResponse, CancellationToken, ValueTask> Work(
            Func<string, HttpRequest, HttpResponse, ValueTask> work) => async (request, response, _) =>
            {
                count(1);
                string token = request.Route["token"];
                try
                {
                    await work(token, request, response);
                }
                finally
                {
                    count(-1);
                }
            };
    }

    private sealed class Echo : Session
    {
        protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);
    }

    // ------------------------------------------------------------------ the clients

    /// <summary>Runs one connection. Returns null if everything was as expected.</summary>
    private static async Task<string?> Ask(EndPoint server, Random random, string connection)
    {
        using Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp)
        {
            NoDelay = true,
            ReceiveBufferSize = 16 * 1024
        };
        await socket.ConnectAsync(server);
        for (int i = 0; i < 6; i++)
        {
            string token = $"{connection}r{i}";
            int what = random.Next(10);
            string path = what switch
            {
                0 or 1 => "sync",
                2 => "kept",
                3 or 4 => "later",
                5 => "pieces",
                6 => "stream",
                7 => "throw",
                8 => "gone",
                _ => "switch"
            };
            bool hasBody = path is "kept" or "stream";
            string head = $"{(hasBody ? "POST" : "GET")} /{path}/{token} HTTP/1.1\r\nHost: a\r\nX-Token: {token}\r\n"
                + path switch
                {
                    "kept" => $"Content-Length: {token.Length}\r\n",
                    "stream" => "Transfer-Encoding: chunked\r\n",
                    "switch" => "Connection: Upgrade\r\nUpgrade: echo\r\n",
                    _ => "",
                } + "\r\n";
            string body = path switch
            {
                "kept" => token,
                "stream" => $"1\r\n{token[0]}\r\n{token.Length - 1:x}\r\n{token[1..]}\r\n0\r\n\r\n",
                _ => ""
            };
            // In two pieces, so that other connections are served between them.
            byte[] message = Encoding.ASCII.GetBytes(head + body);
            int cut = random.Next(message.Length);
            await socket.SendAsync(message.AsMemory(0, cut));
            if (random.Next(3) == 0) await Task.Yield();
            await socket.SendAsync(message.AsMemory(cut));
            switch (path)
            {
                case "gone":
                    // tidy: waits because the server's SendTimeout is to pass
                    if (random.Next(2) == 0) await Task.Delay(400);
                    socket.Close(0);
                    return null;
                case "switch":
                    if (await Read(socket, token,
                        static (text, _) => text.EndsWith("\r\n\r\n", StringComparison.Ordinal)) is var switched
                        && !switched.Contains(" 101 ", StringComparison.Ordinal))
                        return $"{token}: {switched}";
                    await socket.SendAsync(Encoding.ASCII.GetBytes(token));
                    string echoed = await Read(socket, token, static (text, wanted) => text.Length >= wanted.Length);
                    return echoed == token ? null : $"{token} is echoed as {echoed}";
                case "throw":
                    string refused = await Read(socket, token, static (_, _) => false);
                    return refused.StartsWith("HTTP/1.1 500 ", StringComparison.Ordinal)
                        && IsOwn(refused, token, isField: false) ? null : $"{token}: {refused}";
            }

            string answer = await Read(socket, token, path == "pieces"
                ? static (text, _) => text.EndsWith("\r\n0\r\n\r\n", StringComparison.Ordinal)
                : static (text, wanted) => text.EndsWith("\r\n\r\n" + wanted, StringComparison.Ordinal));
            string plain = path == "pieces"
                ? string.Concat(answer[(answer.IndexOf("\r\n\r\n", StringComparison.Ordinal) + 4)..]
                    .Split("\r\n").Where(static (_, line) => line % 2 == 1))
                : answer;
            if (!answer.StartsWith("HTTP/1.1 200 ", StringComparison.Ordinal)
                || !plain.EndsWith(token, StringComparison.Ordinal)
                || !IsOwn(answer, token, isField: path is "sync" or "later" or "pieces"))
                return $"{token}: {answer}";
            if (random.Next(6) == 0) break;
        }

        if (random.Next(2) == 0) socket.Close(0);
        return null;
    }

    /// <summary>The field is present exactly once, with this token, if it was requested; otherwise it is
    /// absent.</summary>
    private static bool IsOwn(string answer, string token, bool isField) =>
        answer.Split("X-Token: ") is var parts && (isField
            ? parts.Length == 2 && parts[1].StartsWith(token + "\r\n", StringComparison.Ordinal) : parts.Length == 1);

    private static async Task<string> Read(Socket socket, string token, Func<string, string, bool> isWhole)
    {
        byte[] buffer = new byte[4096];
        string text = "";
        using CancellationTokenSource patience = new(EngineSite.Patience);
        while (!isWhole(text, token))
        {
            int count;
            try
            {
                count = await socket.ReceiveAsync(buffer, patience.Token);
            }
            catch (Exception e) when (e is SocketException or OperationCanceledException)
            {
                // A response that is delimited by the end of the connection must not end this way: the peer could not
                // detect the truncation.
                if (e is OperationCanceledException)
                    throw new TimeoutException($"{token} waited for more than '{text}'");
                return $"{text} [{e.Message}]";
            }

            if (count == 0) break;
            text += Encoding.ASCII.GetString(buffer, 0, count);
        }

        return text;
    }
}
