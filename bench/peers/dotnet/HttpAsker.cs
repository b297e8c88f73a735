using System.Diagnostics;
using System.Globalization;
using System.Net;
using Whimbrel.Http;

namespace Whimbrel.Bench.Peers;

/// <summary> A client that requests the same bytes over kept-alive connections, one request at a time on each, and
/// checks every byte of every response. HttpClient over .NET's handler and over ours runs the same code; the pool and
/// the session are used as in our guide. </summary>
internal static class HttpAsker
{
    /// <summary>The first bytes of the load program's table, as the responder in C produces them.</summary>
    private static byte[] s_expected = [];

    private static long s_answers;

    public static async Task<bool> RunAsync(string name, int port, int connections, int size, double warmup,
        double seconds)
    {
        s_expected = Enumerable.Range(1, size)
            .Select(static i => (byte)(Mix(unchecked(0x9E3779B97F4A7C15UL * (ulong)i)) >> 56)).ToArray();
        var words = name.Split('-');
        var engine = words is ["whimbrel", _, var kind]
            ? new Engine(new EngineOptions { Kind = Enum.Parse<EngineKind>(kind, ignoreCase: true), Loops = 1 })
            : null;
        var options = new HttpClientOptions { Engine = engine, ConnectionLimit = connections };
        var url = string.Create(CultureInfo.InvariantCulture, $"http://127.0.0.1:{port}/bytes/{size}");
        switch (words)
        {
            case ["httpclient"]:
                StartCallers(
                    new HttpClient(new SocketsHttpHandler { UseProxy = false, MaxConnectionsPerServer = connections }),
                    url, connections);
                break;
            case ["whimbrel", "handler", _]:
                StartCallers(new HttpClient(new WhimbrelHttpHandler(options)), url, connections);
                break;
            case ["whimbrel", "pool", _]:
                var pool = new HttpPool(options);
                for (var i = 0; i < connections; i++)
                {
                    Watch(AskAsync(pool, url));
                }

                break;
            case ["whimbrel", "session", _]:
                for (var i = 0; i < connections; i++)
                {
                    var client = new Client(
                        new ClientOptions { Engine = engine!, EndPoint = new IPEndPoint(IPAddress.Loopback, port) },
                        () => new Asker(port, size));
                    await client.ConnectAsync();
                }

                break;
            default:
                return false;
        }

        await Task.Delay(TimeSpan.FromSeconds(warmup));
        var (answers, allocated, began) = (Volatile.Read(ref s_answers), GC.GetTotalAllocatedBytes(),
            Stopwatch.GetTimestamp());
        Say("begin");
        await Task.Delay(TimeSpan.FromSeconds(seconds));
        answers = Volatile.Read(ref s_answers) - answers;
        var passed = Stopwatch.GetElapsedTime(began).TotalSeconds;
        Say(string.Create(CultureInfo.InvariantCulture,
            $"end answers {answers} seconds {passed:F6} allocated {GC.GetTotalAllocatedBytes() - allocated}"));
        await Task.Delay(Timeout.Infinite);
        return true;
    }

    private static void StartCallers(HttpClient client, string url, int connections)
    {
        for (var i = 0; i < connections; i++)
        {
            Watch(AskAsync(client, new Uri(url)));
        }
    }

    private static async Task AskAsync(HttpClient client, Uri url)
    {
        var buffer = new byte[s_expected.Length + 1];
        while (true)
        {
            using var request = new HttpRequestMessage(HttpMethod.Get, url);
            using var response = await client.SendAsync(request, HttpCompletionOption.ResponseHeadersRead);
            await using var body = await response.Content.ReadAsStreamAsync();
            await CheckAsync((int)response.StatusCode, body, buffer);
        }
    }

    private static async Task AskAsync(HttpPool pool, string url)
    {
        var buffer = new byte[s_expected.Length + 1];
        HttpClientRequest request = new(HttpVerb.Get, url);
        while (true)
        {
            using var response = await pool.SendAsync(request);
            await CheckAsync(response.Status, response.Body, buffer);
        }
    }

    private static async ValueTask CheckAsync(int status, Stream body, byte[] buffer)
    {
        int length = 0, count;
        while ((count = await body.ReadAsync(buffer.AsMemory(length))) > 0)
        {
            length += count;
        }

        Check(status == 200 && buffer.AsSpan(0, length).SequenceEqual(s_expected));
        Interlocked.Increment(ref s_answers);
    }

    /// <summary>If a caller ends, the run ends.</summary>
    private static void Watch(Task caller) =>
        caller.ContinueWith(static failed => Fail(failed.Exception!.InnerException!.ToString()), TaskScheduler.Default);

    private static void Check(bool isRight)
    {
        if (!isRight)
        {
            Fail("an answer was not what it must be");
        }
    }

    private static void Fail(string why)
    {
        Console.Error.WriteLine(why.ReplaceLineEndings(" "));
        Environment.Exit(1);
    }

    private static void Say(string line)
    {
        Console.Out.WriteLine(line);
        Console.Out.Flush();
    }

    private static ulong Mix(ulong x)
    {
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9UL;
        x = (x ^ (x >> 27)) * 0x94D049BB133111EBUL;
        return x ^ (x >> 31);
    }

    private sealed class Asker(int port, int size)
        : HttpClientSession(string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{port}"))
    {
        private readonly byte[] _target =
            System.Text.Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture, $"/bytes/{size}"));
        private int _length;

        protected override void OnConnected() => Request(HttpVerb.Get, _target);

        protected override void OnResponse(HttpResponseHead head)
        {
            Check(head.Status == 200);
            _length = 0;
        }

        protected override void OnBody(ReadOnlySpan<byte> piece)
        {
            Check(_length + piece.Length <= s_expected.Length
                && piece.SequenceEqual(s_expected.AsSpan(_length, piece.Length)));
            _length += piece.Length;
        }

        protected override void OnResponseEnd(HttpResponseHead head)
        {
            Check(_length == s_expected.Length);
            s_answers++;
            Request(HttpVerb.Get, _target);
        }

        protected override void OnRequestFailed(HttpClientException failure) => Fail(failure.ToString());
    }
}
