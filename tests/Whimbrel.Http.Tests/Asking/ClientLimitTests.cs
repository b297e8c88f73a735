using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.Asking;

// Limits of clients that no option sets, or with their default: at the number, and one past it.
public sealed class ClientLimitTests
{
    /// <summary>Sends one request after the other, and records how they end.</summary>
    private sealed class Asker() : HttpClientSession("a.test")
    {
        internal List<string> Told { get; } = [];

        protected override void OnConnected() => Ask();

        internal void Ask() => Assert.Equal(SendResult.Queued, Request(HttpVerb.Get, "/"u8, default, default));

        protected override void OnResponseEnd(HttpResponseHead head) => Told.Add($"end {head.Status}");

        protected override void OnRequestFailed(HttpClientException failure) => Told.Add($"failed {failure.Failure}");
    }

    [Theory]
    [InlineData(8, "end 200")]
    [InlineData(9, "failed Protocol")]
    public void Each_answer_may_have_eight_interim_ones(int count, string told)
    {
        Asker asker = new();
        using TestPeer peer = TestPeer.Accept(() => asker);
        string interims = string.Concat(Enumerable.Repeat("HTTP/1.1 103 Early\r\n\r\n", count));
        peer.Send(interims + Script.Ok);
        Assert.Equal([told], asker.Told);
        if (count > 8) return;
        peer.OnLoop(asker.Ask); // they are counted for each request
        peer.Send(interims + Script.Ok);
        Assert.Equal([told, told], asker.Told);
    }

    [Theory]
    [InlineData(199, 0, "end 200")]
    [InlineData(200, 0, "failed TooLarge")]
    [InlineData(198, 1, "end 200")]
    [InlineData(198, 2, "failed TooLarge")]
    public void An_answer_has_up_to_200_fields_with_its_trailers(int fields, int trailers, string told)
    {
        Asker asker = new();
        using TestPeer peer = TestPeer.Accept(() => asker);
        peer.Send($"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{Lines(fields)}\r\n0\r\n{Lines(trailers)}\r\n");
        Assert.Equal([told], asker.Told);

        static string Lines(int count) => string.Concat(Enumerable.Repeat("A: b\r\n", count));
    }

    [Theory]
    [InlineData(1000, true)]
    [InlineData(1001, false)]
    public async Task A_body_is_read_into_memory_up_to_the_limit_with_a_length_and_without(int length, bool isTaken)
    {
        string body = new('x', length);
        await using Script script = new(line =>
            line.Index == 0 ? line.AnswerAllAsync($"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}")
                : line.AnswerAllAsync("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                    + $"{length.ToString("x", CultureInfo.InvariantCulture)}\r\n{body}\r\n0\r\n\r\n"));
        for (int i = 0; i < 2; i++)
        {
            await using HttpPool pool = new(new HttpClientOptions { BufferedBodyLimitBytes = 1000 });
            Task<(int Status, byte[] Body)> asked = FetchAsync(pool, script);
            if (isTaken) Assert.Equal(length, (await asked).Body.Length);
            else Assert.Equal(HttpClientFailure.TooLarge,
                (await Assert.ThrowsAsync<HttpClientException>(() => asked)).Failure);
        }
    }

    private static Task<(int Status, byte[] Body)> FetchAsync(HttpPool pool, Script script) =>
        pool.FetchAsync(new HttpClientRequest(HttpVerb.Get, script.Url)).AsTask().WaitAsync(Script.Patience);

    [Theory]
    [InlineData(1000, 1)]
    [InlineData(1001, 0)]
    public async Task The_rest_of_an_unread_body_is_skipped_up_to_the_limit(int length, int kept)
    {
        TaskCompletionSource disposed = new(TaskCreationOptions.RunContinuationsAsynchronously);
        await using Script script = new(async line =>
        {
            await line.HeadAsync();
            await line.SendAsync($"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            await disposed.Task;
            await line.SendAsync(new string('x', length));
            await line.EndAsync();
        });
        await using HttpPool pool = new(new HttpClientOptions { SkipLimitBytes = 1000 });
        (await pool.GetAsync(script.Url).AsTask().WaitAsync(Script.Patience)).Dispose();
        disposed.SetResult();
        Assert.True(SpinWait.SpinUntil(
            () => pool.ReadCounters() is { } now && (now.Idle, now.Connections) == (kept, kept), Script.Patience));
    }

    // Each kept connection ends without a word when it gets a request: the fourth attempt uses a new one.
    [Fact]
    public async Task A_request_is_sent_again_three_times_on_kept_connections_and_then_on_a_new_one()
    {
        const int Kept = 5;
        using CountdownEvent all = new(Kept);
        await using Script script = new(async line =>
        {
            await line.HeadAsync();
            if (line.Index < Kept)
            {
                all.Signal();
                await Task.Run(() => all.Wait(Script.Patience)); // so that each request has a connection of its own
            }

            await line.OkAsync();
            await line.HeadAsync();
            if (line.Index >= Kept) await line.OkAsync();
        });
        await using HttpPool pool = new();
        await Task.WhenAll(Enumerable.Range(0, Kept).Select(_ => FetchAsync(pool, script)));
        Assert.True(SpinWait.SpinUntil(() => pool.ReadCounters().Idle == Kept, Script.Patience));
        Assert.Equal(200, (await FetchAsync(pool, script)).Status);
        HttpPoolCounters counters = pool.ReadCounters();
        Assert.Equal((3L, Kept + 1L), (counters.Repeats, counters.Connects));
    }

    [Fact]
    public async Task Origins_without_a_connection_are_forgotten_above_256()
    {
        using Socket bound = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        bound.Bind(new IPEndPoint(IPAddress.Loopback, 0)); // bound but not listening: each connect is refused
        await using HttpPool pool = new(new HttpClientOptions { EndPoint = bound.LocalEndPoint });
        for (int i = 1; i <= 257; i++)
        {
            await Assert.ThrowsAsync<HttpClientException>(() => pool.GetAsync($"http://host{i}.test/").AsTask());
            Assert.Equal(i <= 256 ? i : 1, pool.KnownOrigins);
        }
    }

    [Fact]
    public async Task A_connection_is_used_until_it_is_as_old_as_ConnectionLifetime()
    {
        await using Script script = new(line => line.AnswerAllAsync(Script.Ok));
        TimeSpan lifetime = TimeSpan.FromMilliseconds(100);
        await using HttpPool young = new(), old = new(new HttpClientOptions { ConnectionLifetime = lifetime });
        for (int i = 0; i < 3; i++)
        {
            Assert.Equal(200, (await FetchAsync(young, script)).Status);
            Assert.Equal(200, (await FetchAsync(old, script)).Status);
            // tidy: waits because an age is reached by time alone
            await Task.Delay(2 * lifetime, TestContext.Current.CancellationToken);
        }

        // The age is judged when an answer is complete, so the second request is the last one of its connection.
        Assert.Equal((1L, 2L), (young.ReadCounters().Connects, old.ReadCounters().Connects));
    }
}
