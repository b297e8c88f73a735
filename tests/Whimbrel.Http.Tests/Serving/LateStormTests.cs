using System.Collections.Concurrent;
using System.Globalization;
using System.Net.Sockets;
using System.Text;

namespace Whimbrel.Http.Tests.Serving;

// Late responses from tasks, timers and handlers of other requests, while their exchanges serve one request after
// another: each client must receive its own response and nothing else. 1,000,000 requests in total with
// WHIMBREL_DEEP=1.
public sealed class LateStormTests
{
    private const int Connections = 16;
    private const int Kept = 64; // for handlers of other requests

    private static readonly int _requests = Depth.Of(12_000, deep: 1_000_000 / EngineTests.PlainKinds().Count);

    [Theory, MemberData(nameof(EngineTests.PlainKinds), MemberType = typeof(EngineTests))]
    public async Task A_late_answer_never_becomes_the_answer_to_another_request(EngineKind kind, Scheduling scheduling)
    {
        await using EngineSite site = new(kind, isTls: false, scheduling,
            new HttpOptions { RequestLimit = int.MaxValue });
        Storm storm = new();
        site.Server.Get("/sync/{token}", storm.Handle);
        site.Server.Get("/awaited/{token}", async (request, response, _) =>
        {
            storm.Handle(request, response);
            if (storm.Count() % 2 == 0) await Task.Yield();
        });
        site.Server.Post("/body/{token}", async (request, response, stop) =>
        {
            Stream body = request.Body;
            string token = request.Route["token"];
            _ = Task.Run(() => storm.Use(request, response, body, token), CancellationToken.None);
            await Task.Yield();
        });
        await site.StartAsync();
        await Task.WhenAll(Enumerable.Range(0, Connections).Select(
            connection => Task.Run(() => storm.Ask(site.Server.EndPoint!, connection, _requests / Connections))));
        Assert.True(SpinWait.SpinUntil(() => storm.IsQuiet, EngineSite.Patience), "late uses are still pending");
        TestContext.Current.TestOutputHelper!.WriteLine(
            $"{storm.Refused} late uses were refused, {storm.InTime} answers of tasks came in time");
        Assert.True(storm.Wrong.IsEmpty, string.Join(Environment.NewLine, storm.Wrong.Take(5)));
        Assert.True(storm.Refused > _requests / 4, $"{storm.Refused} late uses were refused: there was no storm");
    }

    private sealed class Storm
    {
        private readonly ConcurrentQueue<(HttpRequest Request, HttpResponse Response, string Token)> _others = [];
        private readonly ConcurrentDictionary<int, Timer> _timers = [];
        private int _count;
        private int _pending;
        private int _refused;
        private int _inTime;

        internal ConcurrentQueue<string> Wrong { get; } = [];

        internal int Refused => Volatile.Read(ref _refused);

        internal int InTime => Volatile.Read(ref _inTime);

        internal bool IsQuiet => Volatile.Read(ref _pending) == 0;

        internal int Count() => Interlocked.Increment(ref _count);

        // Responds immediately or not at all, and keeps its objects for later use by other code.
        internal void Handle(HttpRequest request, HttpResponse response)
        {
            string token = request.Route["token"];
            int number = Count();
            switch (number % 4)
            {
                case 0:
                    Task.Run(() => Use(request, response, null, token));
                    break;
                case 1:
                    Interlocked.Increment(ref _pending);
                    Timer? timer = null;
                    timer = new Timer(_ =>
                    {
                        Use(request, response, null, token);
                        timer!.Dispose();
                        Interlocked.Decrement(ref _pending);
                    });
                    _timers[number] = timer; // an unreferenced timer is collected
                    timer.Change(number % 3, Timeout.Infinite);
                    break;
                default:
                    _others.Enqueue((request, response, token));
                    if (_others.Count > Kept
                        && _others.TryDequeue(out (HttpRequest Request, HttpResponse Response, string Token) other))
                        Use(other.Request, other.Response, null, other.Token);
                    break;
            }

            if (number % 3 != 0) return; // 204, or the response of a task if it is in time
            try
            {
                response.Add("X-Token", token);
                response.Text($"own {token}");
            }
            catch (InvalidOperationException)
            {
                // The task was faster.
            }
        }

        internal void Use(HttpRequest request, HttpResponse response, Stream? body, string token)
        {
            Interlocked.Increment(ref _pending);
            Try(() => Expect(token, request.Route["token"]));
            Try(() => Expect(token, request["X-Token"]));
            Try(() => Expect(token, request.Query["q"]));
            Try(() => Expect(token, request.Cookies["c"]));
            if (body is not null) Try(() => body.ReadAsync(new byte[64]).AsTask().GetAwaiter().GetResult());
            Try(() => response.Add("X-Late", token));
            Try(() => response.Status = 202);
            if (token[^1] % 2 == 0)
                Try(() => response.WriteAsync(Encoding.ASCII.GetBytes($"late {token}")).AsTask().GetAwaiter()
                    .GetResult());
            else if (Try(() => response.Text($"late {token}"))) Interlocked.Increment(ref _inTime);
            Interlocked.Decrement(ref _pending);
        }

        private bool Try(Action use)
        {
            try
            {
                use();
                return true;
            }
            catch (InvalidOperationException)
            {
                Interlocked.Increment(ref _refused);
            }
            catch (IOException)
            {
                // The handler of a streamed response has ended meanwhile: its connection was aborted.
            }
            catch (Exception e)
            {
                Wrong.Enqueue(e.ToString());
            }

            return false;
        }

        private void Expect(string token, string? found)
        {
            if (found != token) Wrong.Enqueue($"the request of {token} shows {found}");
        }

        // ------------------------------------------------------------------ clients

        internal async Task Ask(System.Net.EndPoint server, int connection, int count)
        {
            Socket? socket = null;
            byte[] bytes = new byte[4096];
            for (int i = 0; i < count; i++)
            {
                string token = $"c{connection}n{i}";
                if (socket is null)
                {
                    socket = new Socket(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
                    await socket.ConnectAsync(server);
                }

                string fields = $"?q={token} HTTP/1.1\r\nHost: a\r\nX-Token: {token}\r\nCookie: c={token}\r\n";
                string request = (i % 8) switch
                {
                    7 => $"POST /body/{token}{fields}Content-Length: {token.Length}\r\n\r\n{token}",
                    > 3 => $"GET /awaited/{token}{fields}\r\n",
                    _ => $"GET /sync/{token}{fields}\r\n",
                };
                try
                {
                    await socket.SendAsync(Encoding.ASCII.GetBytes(request));
                    if (await ReadAnswer(socket, bytes, token)) continue;
                }
                catch (SocketException)
                {
                    // Aborted, because a late write was in progress when its handler ended.
                }

                socket.Dispose();
                socket = null;
            }

            socket?.Dispose();
        }

        // False: the connection has ended, in the middle of the answer or before it.
        private async Task<bool> ReadAnswer(Socket socket, byte[] bytes, string token)
        {
            using CancellationTokenSource patience = new(EngineSite.Patience);
            int length = 0;
            while (true)
            {
                int count = await socket.ReceiveAsync(bytes.AsMemory(length), patience.Token);
                if (count == 0) return false;
                length += count;
                string text = Encoding.ASCII.GetString(bytes, 0, length);
                int head = text.IndexOf("\r\n\r\n", StringComparison.Ordinal);
                if (head < 0) continue;
                string body = text[(head + 4)..];
                bool isWhole = text.StartsWith("HTTP/1.1 204", StringComparison.Ordinal)
                    || (text.Contains("chunked", StringComparison.Ordinal)
                        ? body.EndsWith("0\r\n\r\n", StringComparison.Ordinal) : body.Length >= LengthOf(text));
                if (!isWhole) continue;
                foreach (string part in text.Split(["\r\n", " "], StringSplitOptions.None))
                {
                    if (part.StartsWith('c') && part.Contains('n', StringComparison.Ordinal)
                        && char.IsAsciiDigit(part[1]) && part != token)
                        Wrong.Enqueue($"{token} was answered with:{Environment.NewLine}{text}");
                }

                bool isSingle = body.Length == 0 || text.Contains("chunked", StringComparison.Ordinal)
                    || body.Length == LengthOf(text);
                if (!isSingle) Wrong.Enqueue($"{token} has more than one answer:{Environment.NewLine}{text}");
                return true;
            }
        }

        private static int LengthOf(string text)
        {
            int at = text.IndexOf("Content-Length: ", StringComparison.Ordinal);
            return at < 0
                ? 0
                : int.Parse(text.AsSpan(at + 16, text.IndexOf('\r', at) - at - 16), CultureInfo.InvariantCulture);
        }
    }
}
