using System.Globalization;
using System.IO.Compression;
using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Whimbrel.Http.Tests.Asking;

// The awaitable client with servers that follow a script.
public sealed class PoolTests
{
    private static async Task<string> GetAsync(HttpPool pool, string url)
    {
        using HttpClientResponse response = await pool.GetAsync(url).AsTask().WaitAsync(Script.Patience);
        return $"{response.Status} {await response.ReadTextAsync().AsTask().WaitAsync(Script.Patience)}";
    }

    private static async Task<HttpClientFailure> FailureAsync(Func<Task> ask) =>
        (await Assert.ThrowsAsync<HttpClientException>(() => ask().WaitAsync(Script.Patience))).Failure;

    /// <summary>Waits for something that another thread does.</summary>
    private static async Task UntilAsync(Func<bool> isTrue)
    {
        DateTime end = DateTime.UtcNow + Script.Patience;
        while (!isTrue())
        {
            Assert.True(DateTime.UtcNow < end, "It did not come to that.");
            // tidy: waits because another thread's counter has no event
            await Task.Delay(5, TestContext.Current.CancellationToken);
        }
    }

    // ------------------------------------------------------------------ connections

    [Fact]
    public async Task A_connection_is_kept_and_used_again()
    {
        await using Script script = new(line => line.AnswerAllAsync(Script.Ok));
        await using HttpPool pool = new();
        for (int i = 0; i < 5; i++) Assert.Equal("200 ok", await GetAsync(pool, script.Url + "/a?b"));
        Assert.Equal(1, script.Count);
        Assert.Equal($"GET /a?b HTTP/1.1\r\nHost: {script.Url[7..]}\r\nAccept-Encoding: gzip, br, deflate\r\n\r\n",
            script.Heads[4]);
        Assert.Equal(new HttpPoolCounters(5, 0, 1, 0, 0, 1, 1, 0), pool.ReadCounters());
    }

    [Fact]
    public async Task Answers_say_how_long_the_steps_to_them_took()
    {
        TimeSpan pause = TimeSpan.FromMilliseconds(50);
        await using Script script = new(async line =>
        {
            for (int i = 0; i < 2; i++)
            {
                await line.HeadAsync();
                await line.SendAsync("HTTP/1.1 103 Early Hints\r\n\r\n"); // no answer yet
                await Task.Delay(pause); // tidy: waits because the time itself is measured
                await line.OkAsync();
            }
        });
        await using HttpPool pool = new();
        using HttpClientResponse first = await pool.GetAsync(script.Url).AsTask().WaitAsync(Script.Patience);
        await first.ReadBytesAsync();
        using HttpClientResponse second = await pool.GetAsync(script.Url).AsTask().WaitAsync(Script.Patience);
        Assert.True(first.Times.Connect > TimeSpan.Zero && first.Times.Handshake == TimeSpan.Zero, $"{first.Times}");
        Assert.Equal((TimeSpan.Zero, TimeSpan.Zero), (second.Times.Connect, second.Times.Handshake));
        foreach (HttpClientResponse answer in (HttpClientResponse[])[first, second])
            Assert.InRange(answer.Times.FirstByte, pause - TimeSpan.FromMilliseconds(2), Script.Patience);
    }

    [Theory]
    [InlineData("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokX")]
    [InlineData("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad")]
    [InlineData("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n\r\n")]
    [InlineData("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")]
    [InlineData("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok")]
    public async Task A_connection_with_bytes_after_the_answer_or_that_closes_is_not_used_again(string answer)
    {
        await using Script script = new(line => line.AnswerAllAsync(answer));
        await using HttpPool pool = new();
        for (int i = 0; i < 3; i++) Assert.Equal("200 ok", await GetAsync(pool, script.Url));
        Assert.Equal(3, script.Count);
        Assert.Equal(0, pool.ReadCounters().Idle);
    }

    // Such a connection would fail before a byte was sent on it, and the request would be repeated. The responses alone
    // do not show this.
    [Fact]
    public async Task A_waiting_request_does_not_get_a_connection_with_bytes_after_its_answer()
    {
        TaskCompletionSource goes = new(TaskCreationOptions.RunContinuationsAsynchronously);
        await using Script script = new(async line =>
        {
            await line.HeadAsync();
            await goes.Task;
            await line.SendAsync(line.Index == 0 ? Script.Ok + "X" : Script.Ok);
            await line.EndAsync();
        });
        await using HttpPool pool = new(new HttpClientOptions { ConnectionLimit = 1 });
        Task<string> first = GetAsync(pool, script.Url), second = GetAsync(pool, script.Url);
        await UntilAsync(() => pool.ReadCounters() is { Waiting: 1, Connections: 1 });
        goes.SetResult();
        Assert.Equal(["200 ok", "200 ok"], await Task.WhenAll(first, second).WaitAsync(Script.Patience));
        HttpPoolCounters counters = pool.ReadCounters();
        Assert.Equal((2, 0), (counters.Connects, counters.Repeats));
    }

    [Fact]
    public async Task Bytes_that_come_without_a_request_end_the_connection()
    {
        TaskCompletionSource ended = new();
        await using Script script = new(async line =>
        {
            await line.HeadAsync();
            await line.OkAsync();
            if (line.Index == 0)
            {
                await UntilAsync(() => line.Socket.Poll(0, SelectMode.SelectWrite));
                await line.SendAsync("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n");
            }

            try
            {
                await line.EndAsync();
            }
            finally
            {
                ended.TrySetResult();
            }
        });
        await using HttpPool pool = new();
        Assert.Equal("200 ok", await GetAsync(pool, script.Url));
        await ended.Task.WaitAsync(Script.Patience);
        await UntilAsync(() => pool.ReadCounters().Connections == 0);
        Assert.Equal("200 ok", await GetAsync(pool, script.Url));
        Assert.Equal(2, script.Count);
    }

    [Theory, InlineData("GET", true), InlineData("PUT", true), InlineData("DELETE", true), InlineData("POST", false),
        InlineData("PATCH", false)]
    public async Task A_request_on_a_kept_connection_that_dies_is_sent_again_only_when_that_is_safe(string method,
        bool isRepeated)
    {
        await using Script script = new(async line =>
        {
            if (line.Index == 0)
            {
                await line.HeadAsync();
                await line.OkAsync();
                await line.HeadAsync(); // and never a word
            }
            else
            {
                await line.AnswerAllAsync(Script.Ok);
            }
        });
        await using HttpPool pool = new();
        Assert.Equal("200 ok", await GetAsync(pool, script.Url));
        HttpClientRequest request = new(method, new Uri(script.Url));
        if (isRepeated) Assert.Equal(200, (await pool.FetchAsync(request)).Status);
        else
            Assert.Equal(HttpClientFailure.ConnectionLost, await FailureAsync(() => pool.FetchAsync(request).AsTask()));
        Assert.Equal(isRepeated ? 1 : 0, pool.ReadCounters().Repeats);
    }

    [Fact]
    public async Task A_request_is_not_sent_again_on_a_new_connection_or_after_a_part_of_an_answer_or_with_a_stream()
    {
        await using Script script = new(async line =>
        {
            string? head = await line.HeadAsync();
            if (head!.Contains("/first", StringComparison.Ordinal)) return;
            await line.OkAsync();
            head = await line.HeadAsync();
            if (head?.Contains("/part", StringComparison.Ordinal) == true) await line.SendAsync("HTTP/1.1 2");
        });
        await using HttpPool pool = new();
        Assert.Equal(HttpClientFailure.ConnectionLost, await FailureAsync(() => GetAsync(pool, script.Url + "/first")));
        Assert.Equal("200 ok", await GetAsync(pool, script.Url));
        Assert.Equal(HttpClientFailure.ConnectionLost, await FailureAsync(() => GetAsync(pool, script.Url + "/part")));
        Assert.Equal("200 ok", await GetAsync(pool, script.Url));
        HttpClientRequest put = new(HttpVerb.Put, script.Url);
        put.SetBody(new MemoryStream([1]), length: 1);
        Assert.Equal(HttpClientFailure.ConnectionLost, await FailureAsync(() => pool.FetchAsync(put).AsTask()));
        Assert.Equal(0, pool.ReadCounters().Repeats);
    }

    [Fact]
    public async Task Requests_beyond_the_connections_wait_in_order_up_to_their_limit()
    {
        SemaphoreSlim goes = new(0);
        await using Script script = new(async line =>
        {
            while (await line.HeadAsync() is not null)
            {
                await goes.WaitAsync(TestContext.Current.CancellationToken);
                await line.OkAsync();
            }
        });
        await using HttpPool pool = new(new HttpClientOptions { ConnectionLimit = 2, WaitingLimit = 3 });
        List<Task<string>> asked = [];
        for (int i = 0; i < 5; i++) asked.Add(GetAsync(pool, $"{script.Url}/{i}"));
        await UntilAsync(() => pool.ReadCounters() is { Waiting: 3, Connections: 2 });
        Assert.Equal(HttpClientFailure.TooManyWaiting, await FailureAsync(() => GetAsync(pool, script.Url)));
        goes.Release(5);
        foreach (string answer in await Task.WhenAll(asked).WaitAsync(Script.Patience)) Assert.Equal("200 ok", answer);
        Assert.Equal(2, script.Count);
        Assert.Equal(0, pool.ReadCounters().Waiting);
    }

    [Fact]
    public async Task A_request_that_waits_for_undisposed_responses_fails_with_their_number()
    {
        await using Script script = new(line =>
            line.AnswerAllAsync($"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n{new string('x', 300_000)}"));
        await using HttpPool pool =
            new(new HttpClientOptions { ConnectionLimit = 2, WaitTimeout = TimeSpan.FromMilliseconds(300) });
        HttpClientResponse first = await pool.GetAsync(script.Url), second = await pool.GetAsync(script.Url);
        HttpClientException waited = await Assert.ThrowsAsync<HttpClientException>(() => GetAsync(pool, script.Url));
        Assert.Equal(HttpClientFailure.TooManyWaiting, waited.Failure);
        Assert.Contains("All 2 connections", waited.Message, StringComparison.Ordinal);
        Assert.Contains("2 of them with a response that is neither disposed nor read to its end", waited.Message,
            StringComparison.Ordinal);
        Assert.Equal(300_000, (await first.ReadBytesAsync()).Length); // without Dispose
        second.Dispose();
        Assert.StartsWith("200 xxx", await GetAsync(pool, script.Url).WaitAsync(Script.Patience),
            StringComparison.Ordinal);

        await using HttpPool timed =
            new(new HttpClientOptions { ConnectionLimit = 1, RequestTimeout = TimeSpan.FromMilliseconds(500) });
        using CancellationTokenSource stop = new();
        // The time of the first request ends first, and frees its connection: on a busy machine the second may get it.
        HttpClientException? late = null;
        for (int attempt = 0; late is null && attempt < 20; attempt++)
        {
            using HttpClientResponse held = await timed.GetAsync(script.Url);
            late = await Record.ExceptionAsync(() => GetAsync(timed, script.Url)) as HttpClientException;
        }

        Assert.Equal(HttpClientFailure.RequestTimeout, late?.Failure);
        Assert.Equal(0, timed.ReadCounters().Waiting);
        await using HttpPool cancelled = new(new HttpClientOptions { ConnectionLimit = 1 });
        using HttpClientResponse kept = await cancelled.GetAsync(script.Url);
        ValueTask<HttpClientResponse> asked = cancelled.GetAsync(script.Url, stop.Token);
        await UntilAsync(() => cancelled.ReadCounters().Waiting == 1);
        await stop.CancelAsync();
        OperationCanceledException e = await Assert.ThrowsAnyAsync<OperationCanceledException>(() => asked.AsTask());
        Assert.Contains("1 of them with a response", e.Message, StringComparison.Ordinal);
        Assert.Equal(stop.Token, e.CancellationToken);
    }

    [Fact]
    public async Task A_waiting_request_connects_when_a_connection_has_ended_and_a_cancelled_wait_leaves_no_trace()
    {
        SemaphoreSlim goes = new(0);
        await using Script script = new(async line =>
        {
            await line.HeadAsync();
            await goes.WaitAsync(TestContext.Current.CancellationToken);
            if (line.Index > 0) await line.OkAsync();
        });
        await using HttpPool pool = new(new HttpClientOptions { ConnectionLimit = 1 });
        Task<string> first = GetAsync(pool, script.Url);
        await UntilAsync(() => pool.ReadCounters().Connections == 1);
        using CancellationTokenSource cancelled = new();
        Task gone = pool.GetAsync(script.Url, cancelled.Token).AsTask();
        Task<string> next = GetAsync(pool, script.Url);
        await UntilAsync(() => pool.ReadCounters().Waiting == 2);
        await cancelled.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => gone.WaitAsync(Script.Patience));
        Assert.Equal(1, pool.ReadCounters().Waiting);
        goes.Release(2);
        Assert.Equal(HttpClientFailure.ConnectionLost, await FailureAsync(() => first));
        Assert.Equal("200 ok", await next.WaitAsync(Script.Patience));
        Assert.Equal(2, script.Count);
    }

    [Fact]
    public async Task Idle_connections_end_by_time_age_and_number()
    {
        await using Script script = new(line => line.AnswerAllAsync(Script.Ok));
        await using HttpPool quick = new(new HttpClientOptions { IdleTimeout = TimeSpan.FromMilliseconds(50) });
        Assert.Equal("200 ok", await GetAsync(quick, script.Url));
        await UntilAsync(() => quick.ReadCounters() is { Connections: 0, Idle: 0 });
        await using HttpPool none = new(new HttpClientOptions { IdleLimit = 0 });
        Assert.Equal("200 ok", await GetAsync(none, script.Url));
        await UntilAsync(() => none.ReadCounters() is { Connections: 0, Idle: 0 });
    }

    [Fact]
    public async Task Failed_connects_leave_the_places_of_their_origin_as_they_were()
    {
        string path = Path.Combine(Path.GetTempPath(), $"whimbrel-{Guid.NewGuid():N}.sock");
        await using HttpPool pool =
            new(new HttpClientOptions { EndPoint = new UnixDomainSocketEndPoint(path), ConnectionLimit = 2 });
        for (int i = 0; i < 5; i++)
        {
            await FailureAsync(() => GetAsync(pool, "http://a.test/"));
            await UntilAsync(() => pool.ReadCounters().Connections == 0);
        }

        SemaphoreSlim goes = new(0);
        await using Script script = new(async line =>
        {
            while (await line.HeadAsync() is not null)
            {
                await goes.WaitAsync(TestContext.Current.CancellationToken);
                await line.OkAsync();
            }
        }, new UnixDomainSocketEndPoint(path));
        Task<string>[] asked = [.. Enumerable.Range(0, 4).Select(_ => GetAsync(pool, "http://a.test/"))];
        await UntilAsync(() => pool.ReadCounters() is { Connections: 2, Waiting: 2 });
        goes.Release(4);
        foreach (string answer in await Task.WhenAll(asked).WaitAsync(Script.Patience)) Assert.Equal("200 ok", answer);
        Assert.Equal(2, script.Count);
        File.Delete(path);
    }

    [Fact] // so that the others become old and end
    public async Task The_connection_that_was_used_last_is_used_next()
    {
        SemaphoreSlim[] goes = [new(0), new(0), new(0)];
        await using Script script = new(async line =>
        {
            while (await line.HeadAsync() is { } head)
            {
                if (head.Contains("/first", StringComparison.Ordinal))
                    await goes[line.Index].WaitAsync(TestContext.Current.CancellationToken);
                await line.OkAsync($"{line.Index}");
            }
        });
        await using HttpPool pool = new();
        Task<string>[] first = [.. Enumerable.Range(0, 3).Select(_ => GetAsync(pool, script.Url + "/first"))];
        await UntilAsync(() => script.Count == 3);
        for (int i = 0; i < 3; i++)
        {
            goes[i].Release();
            await UntilAsync(() => pool.ReadCounters().Idle == i + 1);
        }

        await Task.WhenAll(first).WaitAsync(Script.Patience);
        for (int i = 0; i < 5; i++) Assert.Equal("200 2", await GetAsync(pool, script.Url + "/next"));
    }

    [Fact]
    public async Task A_body_may_take_longer_than_a_head()
    {
        await using Script script = new(async line =>
        {
            while (await line.HeadAsync() is not null)
            {
                await line.SendAsync("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n");
                for (int i = 0; i < 6; i++)
                {
                    await Task.Delay(150); // tidy: waits because the body must be slower than a head may be
                    await line.SendAsync("x");
                }
            }
        });
        await using HttpPool pool = new(new HttpClientOptions { HeadTimeout = TimeSpan.FromMilliseconds(500) });
        for (int i = 0; i < 2; i++) Assert.Equal("200 xxxxxx", await GetAsync(pool, script.Url));
    }

    [Fact]
    public async Task A_pool_that_is_disposed_ends_what_waits_and_what_is_asked()
    {
        await using Script script = new(line => line.EndAsync());
        HttpPool pool = new(new HttpClientOptions { ConnectionLimit = 1 });
        Task<string> asked = GetAsync(pool, script.Url), waits = GetAsync(pool, script.Url);
        await UntilAsync(() => pool.ReadCounters() is { Waiting: 1 } && script.Count == 1);
        await pool.DisposeAsync();
        Assert.Equal(HttpClientFailure.Closed, await FailureAsync(() => waits));
        Assert.Equal(HttpClientFailure.Closed, await FailureAsync(() => asked));
        Assert.Equal(HttpClientFailure.Closed, await FailureAsync(() => GetAsync(pool, script.Url)));
    }

    [Fact]
    public async Task Another_end_point_than_the_URL_says()
    {
        string path = Path.Combine(Path.GetTempPath(), $"whimbrel-{Guid.NewGuid():N}.sock");
        await using Script script = new(line => line.AnswerAllAsync(Script.Ok), new UnixDomainSocketEndPoint(path));
        await using HttpPool pool = new(new HttpClientOptions { EndPoint = new UnixDomainSocketEndPoint(path) });
        Assert.Equal("200 ok", await GetAsync(pool, "http://a.test/x"));
        Assert.StartsWith("GET /x HTTP/1.1\r\nHost: a.test\r\n", script.Heads[0], StringComparison.Ordinal);
        File.Delete(path);
    }

    // ------------------------------------------------------------------ failures

    [Theory]
    [InlineData("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", HttpClientFailure.Protocol)]
    [InlineData("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HttpClientFailure.Protocol)]
    [InlineData("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", HttpClientFailure.Protocol)]
    [InlineData("HTTP/1.1 101 Hello\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", HttpClientFailure.Protocol)]
    [InlineData("HTTP/1.1 100 \r\n\r\nHTTP/1.1 100 \r\n\r\nHTTP/1.1 100 \r\n\r\n", HttpClientFailure.Protocol)]
    [InlineData("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", HttpClientFailure.BodyCut)]
    [InlineData("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", HttpClientFailure.BodyCut)]
    [InlineData("HTTP/1.1 200 O", HttpClientFailure.ConnectionLost)]
    [InlineData("", HttpClientFailure.ConnectionLost)]
    [InlineData("HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n", HttpClientFailure.TooLarge)]
    [InlineData("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
        HttpClientFailure.Decompression)]
    [InlineData("HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 5\r\n\r\nhello",
        HttpClientFailure.Decompression)]
    public async Task Each_failure_has_its_own_kind(string answer, HttpClientFailure failure)
    {
        await using Script script = new(async line =>
        {
            await line.HeadAsync();
            await line.SendAsync(answer);
        });
        await using HttpPool pool = new(new HttpClientOptions { BodyLimitBytes = 1000, InterimLimit = 2 });
        Assert.Equal(failure, await FailureAsync(() => GetAsync(pool, script.Url)));
        await UntilAsync(() => pool.ReadCounters().Connections == 0);
    }

    [Fact]
    public async Task Failed_connects_report_their_cause()
    {
        await using HttpPool pool = new();
        using Socket bound = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        bound.Bind(new IPEndPoint(IPAddress.Loopback, 0)); // bound but not listening
        Assert.Equal(HttpClientFailure.Refused,
            await FailureAsync(() => GetAsync(pool, $"http://{bound.LocalEndPoint}/")));
        Assert.Equal(HttpClientFailure.UnknownHost,
            await FailureAsync(() => GetAsync(pool, "http://no-such-host.invalid/")));
        await using Script plain = new(async line =>
        {
            await line.SendAsync("I speak no TLS\r\n");
            await line.EndAsync();
        });
        Assert.Equal(HttpClientFailure.Tls, await FailureAsync(() => GetAsync(pool, "https" + plain.Url[4..])));
        Assert.Equal(0, pool.ReadCounters().Connections);
        Assert.Equal(3, pool.ReadCounters().Failures);
    }

    [Fact]
    public async Task Times_have_their_limits()
    {
        await using Script script = new(async line =>
        {
            string? head = await line.HeadAsync();
            if (head!.Contains("/body", StringComparison.Ordinal))
                await line.SendAsync("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx");
            await line.EndAsync();
        });
        TimeSpan soon = TimeSpan.FromMilliseconds(100);
        await using HttpPool head = new(new HttpClientOptions { HeadTimeout = soon });
        Assert.Equal(HttpClientFailure.HeadTimeout, await FailureAsync(() => GetAsync(head, script.Url)));
        await using HttpPool body = new(new HttpClientOptions { RateGrace = soon });
        Assert.Equal(HttpClientFailure.Stalled, await FailureAsync(() => GetAsync(body, script.Url + "/body")));
        await using HttpPool whole = new(new HttpClientOptions { RequestTimeout = soon });
        Assert.Equal(HttpClientFailure.RequestTimeout, await FailureAsync(() => GetAsync(whole, script.Url)));
        Assert.Equal(HttpClientFailure.RequestTimeout, await FailureAsync(() => GetAsync(whole, script.Url + "/body")));
        foreach (HttpPool pool in (HttpPool[])[head, body, whole])
            await UntilAsync(() => pool.ReadCounters().Connections == 0);
    }

    [Fact]
    public async Task A_server_that_takes_nothing_of_a_request_is_given_up()
    {
        SemaphoreSlim over = new(0);
        await using Script script = new(async line =>
        {
            await line.HeadAsync();
            await over.WaitAsync(TestContext.Current.CancellationToken);
        });
        await using HttpPool pool = new(new HttpClientOptions { SendTimeout = TimeSpan.FromMilliseconds(200) });
        HttpClientRequest request = new(HttpVerb.Post, script.Url);
        request.SetBody(new byte[64 * 1024 * 1024]);
        Assert.Equal(HttpClientFailure.Stalled, await FailureAsync(() => pool.FetchAsync(request).AsTask()));
        over.Release();
    }

    [Fact]
    public async Task A_request_can_be_cancelled_at_any_moment()
    {
        TaskCompletionSource asked = new();
        await using Script script = new(async line =>
        {
            string? head = await line.HeadAsync();
            if (head!.Contains("/body", StringComparison.Ordinal))
                await line.SendAsync("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx");
            asked.TrySetResult();
            await line.EndAsync();
        });
        await using HttpPool pool = new();
        using CancellationTokenSource stop = new();
        Task<HttpClientResponse> waits = pool.GetAsync(script.Url, stop.Token).AsTask();
        await asked.Task.WaitAsync(Script.Patience);
        await stop.CancelAsync();
        OperationCanceledException e =
            await Assert.ThrowsAnyAsync<OperationCanceledException>(() => waits.WaitAsync(Script.Patience));
        Assert.Equal(stop.Token, e.CancellationToken);
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => pool.GetAsync(script.Url, stop.Token).AsTask());

        // The token of a read cancels only that read, and no byte is lost.
        using HttpClientResponse response = await pool.GetAsync(script.Url + "/body").AsTask()
            .WaitAsync(Script.Patience);
        byte[] into = new byte[100];
        Assert.Equal(1, await response.Body.ReadAsync(into).AsTask().WaitAsync(Script.Patience));
        using CancellationTokenSource soon = new(50);
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => response.Body.ReadAsync(into, soon.Token).AsTask()
            .WaitAsync(Script.Patience));
        response.Dispose();
        await Assert.ThrowsAsync<ObjectDisposedException>(() => response.Body.ReadAsync(into).AsTask());
    }

    [Fact]
    public async Task Cancelled_at_random_moments_requests_neither_hang_nor_get_each_others_answers()
    {
        await using Script script = new(async line =>
        {
            while (await line.HeadAsync() is { } head) await line.OkAsync(head.Split(' ')[1]);
        });
        await using HttpPool pool = new(new HttpClientOptions { ConnectionLimit = 4 });
        int answered = 0, cancelled = 0, seed = Environment.TickCount;
        await Parallel.ForAsync(0, 400, new ParallelOptions { MaxDegreeOfParallelism = 8 }, async (i, _) =>
        {
            using CancellationTokenSource stop = new();
            Random random = new(seed + i);
            Task<HttpClientResponse> asked = pool.GetAsync($"{script.Url}/{i}", stop.Token).AsTask();
            for (int turns = random.Next(60); turns > 0; turns--) await Task.Yield();
            await stop.CancelAsync();
            try
            {
                using HttpClientResponse response = await asked.WaitAsync(Script.Patience, CancellationToken.None);
                Assert.Equal($"/{i}", await response.ReadTextAsync(CancellationToken.None));
                Interlocked.Increment(ref answered);
            }
            catch (OperationCanceledException)
            {
                Interlocked.Increment(ref cancelled);
            }
        });
        Assert.Equal(400, answered + cancelled);
        Assert.Equal("200 /x", await GetAsync(pool, script.Url + "/x"));
        await UntilAsync(() => pool.ReadCounters() is { Waiting: 0 } counters && counters.Connections == counters.Idle);
    }

    // ------------------------------------------------------------------ bodies of answers

    [Fact]
    public async Task A_body_that_is_not_read_to_its_end_frees_its_connection_or_ends_it()
    {
        await using Script script = new(async line =>
        {
            while (await line.HeadAsync() is { } head)
            {
                int length = int.Parse(head.Split(' ')[1][1..], System.Globalization.CultureInfo.InvariantCulture);
                await line.SendAsync($"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
                await line.SendAsync(new string('x', length));
            }
        });
        await using HttpPool pool = new(new HttpClientOptions { SkipLimitBytes = 100_000 });
        (await pool.GetAsync(script.Url + "/90000")).Dispose();
        await UntilAsync(() => pool.ReadCounters().Idle == 1);
        Assert.Equal(1, script.Count);
        (await pool.GetAsync(script.Url + "/5000000")).Dispose();
        await UntilAsync(() => pool.ReadCounters().Connections == 0);
        using HttpClientResponse large = await pool.GetAsync(script.Url + "/17000000");
        Assert.Equal(HttpClientFailure.TooLarge, await FailureAsync(() => large.ReadBytesAsync().AsTask()));
    }

    [Fact]
    public async Task Trailers_interim_answers_and_a_body_until_the_end()
    {
        await using Script script = new(async line =>
        {
            await line.HeadAsync();
            await line.SendAsync("HTTP/1.1 103 Early\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: "
                + "chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n");
            await line.HeadAsync();
            await line.SendAsync("HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=iso-8859-1\r\n\r\n\xe4");
        });
        await using HttpPool pool = new();
        using HttpClientResponse first = await pool.GetAsync(script.Url);
        Assert.Equal("ok", await first.ReadTextAsync());
        Assert.True(first.Head.TryGetTrailer("x-sum"u8, out ReadOnlySpan<byte> sum));
        Assert.Equal("7", Encoding.ASCII.GetString(sum));
        using HttpClientResponse second = await pool.GetAsync(script.Url);
        Assert.Equal(-1, second.BodyLength);
        Assert.Equal("\u00e4", await second.ReadTextAsync());
    }

    public static TheoryData<string> Codings => ["gzip", "br", "deflate", "bare deflate"];

    private static byte[] Compress(string coding, byte[] plain)
    {
        MemoryStream to = new();
        using (Stream stream = coding switch
        {
            "gzip" => new GZipStream(to, CompressionLevel.Optimal),
            "br" => new BrotliStream(to, CompressionLevel.Optimal),
            "deflate" => new ZLibStream(to, CompressionLevel.Optimal),
            _ => new DeflateStream(to, CompressionLevel.Optimal),
        }) stream.Write(plain);
        return to.ToArray();
    }

    private static Script Compressed(string coding, byte[] bytes) => new(async line =>
    {
        while (await line.HeadAsync() is not null)
        {
            await line.SendAsync($"HTTP/1.1 200 OK\r\nContent-Encoding: {coding.Split(' ')[^1]}\r\nContent-Length: "
                + $"{bytes.Length}\r\n\r\n");
            await line.Stream.WriteAsync(bytes);
        }
    });

    [Theory, MemberData(nameof(Codings))]
    public async Task Compressed_bodies_are_decompressed_and_their_connection_is_kept(string coding)
    {
        byte[] plain = new byte[300_000];
        new Random(1).NextBytes(plain.AsSpan(0, 200_000));
        await using Script script = Compressed(coding, Compress(coding, plain));
        await using HttpPool pool = new();
        for (int i = 0; i < 2; i++)
        {
            using HttpClientResponse response = await pool.GetAsync(script.Url);
            Assert.Equal(-1, response.BodyLength);
            Assert.Equal(plain, await response.ReadBytesAsync());
        }

        Assert.Equal(1, script.Count);
        await using HttpPool raw = new(new HttpClientOptions { Decompress = false });
        using HttpClientResponse asSent = await raw.GetAsync(script.Url);
        Assert.Equal(Compress(coding, plain), await asSent.ReadBytesAsync());
        Assert.DoesNotContain("Accept-Encoding", script.Heads[^1], StringComparison.Ordinal);
    }

    [Theory, MemberData(nameof(Codings))]
    public async Task A_compressed_body_that_ends_too_early_fails(string coding)
    {
        byte[] plain = new byte[100_000],
            bytes = Compress(coding, plain.Select((_, i) => (byte)(i * i % 251)).ToArray());
        foreach (int length in (int[])[1, bytes.Length / 2, bytes.Length - 1])
        {
            await using Script script = Compressed(coding, bytes[..length]);
            await using HttpPool pool = new();
            Assert.Equal((length, HttpClientFailure.Decompression),
                (length, await FailureAsync(() => GetAsync(pool, script.Url))));
        }
    }

    [Theory, MemberData(nameof(Codings))]
    public async Task A_compressed_body_truncated_at_any_byte_fails_with_every_framing(string coding)
    {
        byte[] same = new byte[500], noise = new byte[30];
        new Random(7).NextBytes(noise);
        byte[][] members = [Compress(coding, same), Compress(coding, noise)];
        // gzip permits concatenated members, as in concatenated files.
        byte[] both = [.. members[0], .. members[1]];
        byte[][] bodies = coding == "gzip" ? [.. members, both] : members, plains = [same, noise, [.. same, .. noise]];
        await using Script script = new(async line =>
        {
            while (await line.HeadAsync() is { } head)
            {
                string[] path = head.Split(' ')[1].Split('/');
                byte[] bytes = bodies[int.Parse(path[2], CultureInfo.InvariantCulture)];
                int cut = int.Parse(path[3], CultureInfo.InvariantCulture);
                string framing = path[1] switch
                {
                    "length" => $"Content-Length: {cut}\r\n\r\n",
                    "short" => $"Content-Length: {bytes.Length}\r\n\r\n",
                    "end" => "\r\n",
                    _ => "Transfer-Encoding: chunked\r\n\r\n"
                };
                if (path[1].StartsWith("chunk", StringComparison.Ordinal) && cut > 0) framing += $"{cut:x}\r\n";
                await line.SendAsync($"HTTP/1.1 200 OK\r\nContent-Encoding: {coding.Split(' ')[^1]}\r\n{framing}");
                await line.Stream.WriteAsync(bytes.AsMemory(0, cut));
                if (path[1].StartsWith("chunk", StringComparison.Ordinal) && cut > 0) await line.SendAsync("\r\n");
                if (path[1] == "chunks") await line.SendAsync("0\r\n\r\n");
                if (path[1] is not ("length" or "chunks")) return;
            }
        });
        await using HttpPool pool = new();
        System.Collections.Concurrent.ConcurrentQueue<string> wrong = [];
        for (int body = 0; body < bodies.Length; body++)
        {
            int which = body;
            await Parallel.ForAsync(0, bodies[which].Length + 1, new ParallelOptions { MaxDegreeOfParallelism = 16 },
                async (cut, stop) =>
                {
                    bool isWhole = cut == bodies[which].Length;
                    // At the boundary of two members only the framing shows that another one follows.
                    byte[]? plain = isWhole ? plains[which] : which == 2 && cut == members[0].Length ? same : null;
                    string told = plain is null ? nameof(HttpClientFailure.Decompression) : Convert.ToHexString(plain);
                    await ExpectAsync("length", cut == 0 ? "" : told);
                    await ExpectAsync("chunks", cut == 0 ? "" : told);
                    await ExpectAsync("end", told);
                    await ExpectAsync("chunks-without-end", nameof(HttpClientFailure.BodyCut));
                    if (!isWhole) await ExpectAsync("short", nameof(HttpClientFailure.BodyCut));

                    async Task ExpectAsync(string framing, string expected)
                    {
                        string got;
                        try
                        {
                            using HttpClientResponse response = await pool
                                .GetAsync($"{script.Url}/{framing}/{which}/{cut}", stop).AsTask()
                                .WaitAsync(Script.Patience, stop);
                            got = Convert.ToHexString(await response.ReadBytesAsync(stop).AsTask()
                                .WaitAsync(Script.Patience, stop));
                        }
                        catch (HttpClientException e)
                        {
                            got = e.Failure.ToString();
                        }

                        if (got != expected)
                            wrong.Enqueue($"{framing} {which} {cut} of {bodies[which].Length}: "
                                + $"{(got.Length > 20 ? got[..20] : got)}");
                    }
                });
        }

        Assert.True(wrong.IsEmpty, $"{wrong.Count} wrong:\n{string.Join('\n', wrong)}");
    }

    [Theory]
    [InlineData("HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", "200 ok")]
    [InlineData("HTTP/1.1 999 Go away\r\nContent-Length: 2\r\n\r\nno", "999 no")]
    [InlineData("HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 2\r\n\r\nok", "200 ok b   c")]
    [InlineData("HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\nContent-Length: 2\r\n\r\nok", "200 ok")]
    [InlineData("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-T: u\r\n\tv\r\n\r\n",
        "200 ok u  \tv")]
    public async Task An_irregular_answer_with_one_meaning_is_taken_unless_StrictAnswers_is_set(string answer,
        string told)
    {
        await using Script script = new(line => line.AnswerAllAsync(answer));
        await using HttpPool pool = new(), strict = new(new HttpClientOptions { StrictAnswers = true });
        for (int i = 0; i < 2; i++)
        {
            using HttpClientResponse response = await pool.GetAsync(script.Url).AsTask().WaitAsync(Script.Patience);
            string text = $"{response.Status} {await response.ReadTextAsync()} {response.Head["X-A"]}";
            text += response.Head.TryGetTrailer("X-T"u8, out ReadOnlySpan<byte> trailer)
                ? Encoding.ASCII.GetString(trailer)
                : "";
            Assert.Equal(told, text.Trim());
            Assert.False(response.Status > 299 && response.IsSuccess);
        }

        Assert.Equal(1, script.Count);
        Assert.Equal(HttpClientFailure.Protocol, await FailureAsync(() => GetAsync(strict, script.Url)));
        using HttpClient theirs = new(new WhimbrelHttpHandler()) { Timeout = Script.Patience };
        using HttpResponseMessage message = await theirs.GetAsync(new Uri(script.Url),
            TestContext.Current.CancellationToken);
        Assert.Equal(2, (await message.Content.ReadAsByteArrayAsync(TestContext.Current.CancellationToken)).Length);
        Assert.True(message.Content.Headers.ContentLength is null or 2);
        Assert.Equal(told.StartsWith("200", StringComparison.Ordinal), message.IsSuccessStatusCode);
    }

    [Theory, MemberData(nameof(Codings))]
    public async Task A_body_that_grows_too_much_is_cut_off_by_ratio_and_by_size(string coding)
    {
        await using Script script = Compressed(coding, Compress(coding, new byte[8_000_000]));
        await using HttpPool ratio = new();
        Assert.Equal(HttpClientFailure.Decompression, await FailureAsync(() => GetAsync(ratio, script.Url)));
        await using HttpPool size =
            new(new HttpClientOptions { DecompressionRatioLimit = 1_000_000, BodyLimitBytes = 7_000_000 });
        Assert.Equal(HttpClientFailure.TooLarge, await FailureAsync(() => GetAsync(size, script.Url)));
        await using HttpPool both = new(new HttpClientOptions { DecompressionRatioLimit = 1_000_000 });
        using HttpClientResponse response = await both.GetAsync(script.Url);
        Assert.Equal(8_000_000, (await response.ReadBytesAsync()).Length);
    }

    // ------------------------------------------------------------------ bodies of requests

    [Fact]
    public async Task Bodies_from_streams_are_chunked_or_have_their_length()
    {
        List<string> bodies = [];
        await using Script script = new(async line =>
        {
            while (await line.HeadAsync() is { } head)
            {
                bodies.Add(
                    (await line.UntilAsync(head.Contains("chunked", StringComparison.Ordinal) ? "0\r\n\r\n" : "end"))!);
                await line.OkAsync();
            }
        });
        await using HttpPool pool = new();
        HttpClientRequest chunked = new(HttpVerb.Post, script.Url);
        chunked.SetBody(new MemoryStream("hello end"u8.ToArray()), "text/plain");
        Assert.Equal(200, (await pool.FetchAsync(chunked)).Status);
        // The response may arrive before the thread that writes the body knows that all of it was accepted. Until then
        // the connection is not idle.
        await UntilAsync(() => pool.ReadCounters().Idle == 1);
        HttpClientRequest known = new(HttpVerb.Put, script.Url);
        known.SetBody(
            async (to, stop) =>
            {
                await to.WriteAsync("hel"u8.ToArray(), stop);
                await to.FlushAsync(stop);
                await to.WriteAsync("lo end"u8.ToArray(), stop);
            },
            length: 9);
        Assert.Equal(200, (await pool.FetchAsync(known)).Status);
        await UntilAsync(() => pool.ReadCounters().Idle == 1);
        HttpClientRequest empty = new(HttpVerb.Post, script.Url);
        empty.SetBody(new MemoryStream());
        Assert.Equal(200, (await pool.FetchAsync(empty)).Status);
        Assert.Equal(["9\r\nhello end\r\n0\r\n\r\n", "hello end", "0\r\n\r\n"], bodies);
        Assert.Equal(1, script.Count);
    }

    [Theory, InlineData(3), InlineData(7)]
    public async Task A_body_of_another_length_than_was_said_fails(int said)
    {
        await using Script script = new(line => line.EndAsync());
        await using HttpPool pool = new();
        HttpClientRequest request = new(HttpVerb.Post, script.Url);
        request.SetBody(new MemoryStream("hello"u8.ToArray()), length: said);
        Assert.Equal(HttpClientFailure.RequestBody, await FailureAsync(() => pool.FetchAsync(request).AsTask()));
        request.SetBody((_, _) => throw new FormatException("mine"));
        HttpClientException e = await Assert.ThrowsAsync<HttpClientException>(() => pool.FetchAsync(request).AsTask());
        Assert.IsType<FormatException>(e.InnerException);
        await UntilAsync(() => pool.ReadCounters().Connections == 0);
    }

    [Fact]
    public async Task An_early_answer_is_returned_and_ends_the_connection()
    {
        await using Script script = new(async line =>
        {
            await line.HeadAsync();
            await line.SendAsync("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
            await line.EndAsync();
        });
        await using HttpPool pool = new();
        HttpClientRequest request = new(HttpVerb.Post, script.Url);
        TaskCompletionSource stopped = new();
        request.SetBody(async (to, stop) =>
        {
            try
            {
                await to.WriteAsync(new byte[1], stop);
                await to.FlushAsync(stop);
                await Task.Delay(Timeout.Infinite, stop); // tidy: waits because cancellation is the awaited event
            }
            finally
            {
                stopped.SetResult();
            }
        });
        (int status, byte[] body) = await pool.FetchAsync(request).AsTask().WaitAsync(Script.Patience);
        Assert.Equal((413, "no"), (status, Encoding.ASCII.GetString(body)));
        await stopped.Task.WaitAsync(Script.Patience);
        await UntilAsync(() => pool.ReadCounters().Connections == 0);
    }

    [Theory]
    [InlineData("memory")]
    [InlineData("stream")]
    [InlineData("function")]
    public async Task An_early_answer_is_returned_even_if_the_connection_then_breaks(string kind)
    {
        await using Script script = new(async line =>
        {
            await line.HeadAsync();
            await line.SendAsync("HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno");
            // The socket is closed with unread bytes, which resets the connection while the client writes.
        });
        await using HttpPool pool = new();
        byte[] large = new byte[4 * 1024 * 1024];
        List<string> wrong = [];
        for (int run = 0; run < 100; run++)
        {
            HttpClientRequest request = new(HttpVerb.Post, script.Url);
            if (kind == "memory") request.SetBody(large);
            else if (kind == "stream") request.SetBody(new MemoryStream(large), length: large.Length);
            else
            {
                request.SetBody(async (to, stop) =>
                {
                    for (int at = 0; at < large.Length; at += 10_000)
                        await to.WriteAsync(large.AsMemory(at, Math.Min(10_000, large.Length - at)), stop);
                });
            }

            try
            {
                (int status, byte[] body) = await pool.FetchAsync(request).AsTask().WaitAsync(Script.Patience);
                if ((status, Encoding.ASCII.GetString(body)) != (413, "no")) wrong.Add($"{run}: {status}");
            }
            catch (HttpClientException e)
            {
                wrong.Add($"{run}: {e.Failure} {e.Message}");
            }
        }

        Assert.True(wrong.Count == 0, $"{wrong.Count} wrong:\n{string.Join('\n', wrong)}");
    }

    [Fact]
    public async Task A_body_that_is_read_a_second_time_throws_with_the_cure()
    {
        await using Script script = new(line => line.AnswerAllAsync(Script.Ok));
        await using HttpPool pool = new();
        using HttpClientResponse text = await pool.GetAsync(script.Url), streamed = await pool.GetAsync(script.Url),
            begun = await pool.GetAsync(script.Url);
        Assert.Equal("ok", await text.ReadTextAsync());
        InvalidOperationException e =
            await Assert.ThrowsAsync<InvalidOperationException>(() => text.ReadTextAsync().AsTask());
        Assert.Contains("keep what ReadBytesAsync or ReadTextAsync returned", e.Message, StringComparison.Ordinal);
        await Assert.ThrowsAsync<InvalidOperationException>(() => text.ReadBytesAsync().AsTask());
        Assert.Throws<InvalidOperationException>(() => text.Body);
        await streamed.Body.CopyToAsync(Stream.Null, TestContext.Current.CancellationToken);
        await Assert.ThrowsAsync<InvalidOperationException>(() => streamed.ReadTextAsync().AsTask());
        Assert.Equal('o', begun.Body.ReadByte()); // a beginning that was looked at
        Assert.Equal("k", await begun.ReadTextAsync());
    }

    [Fact]
    public async Task A_body_is_sent_after_100_continue_when_configured()
    {
        await using Script script = new(async line =>
        {
            while (await line.HeadAsync() is { } head)
            {
                Assert.Contains("Expect: 100-continue\r\n", head, StringComparison.Ordinal);
                if (head.Contains("/no", StringComparison.Ordinal))
                {
                    await line.SendAsync("HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n");
                    await line.EndAsync();
                }

                if (head.Contains("/yes", StringComparison.Ordinal))
                    await line.SendAsync("HTTP/1.1 100 Continue\r\n\r\n");
                await line.OkAsync((await line.UntilAsync("end"))!);
            }
        });
        await using HttpPool patient = new(new HttpClientOptions { ContinueTimeout = Script.Patience }),
            quick = new(new HttpClientOptions { ContinueTimeout = TimeSpan.FromMilliseconds(50) });
        Assert.Equal("200 the end", await AskAsync(patient, "/yes"));
        // The response may arrive before the pool knows that the whole body was sent.
        await UntilAsync(() => patient.ReadCounters().Idle == 1);
        Assert.Equal("200 the end", await AskAsync(patient, "/yes"));
        Assert.Equal(1, script.Count);
        // otherwise the next request opens a connection and this one stays idle
        await UntilAsync(() => patient.ReadCounters().Idle == 1);
        Assert.Equal("417 ", await AskAsync(patient, "/no"));
        await UntilAsync(() => patient.ReadCounters().Connections == 0);
        Assert.Equal("200 the end", await AskAsync(quick, "/silent"));

        async Task<string> AskAsync(HttpPool pool, string path)
        {
            HttpClientRequest request = new(HttpVerb.Post, script.Url + path) { ExpectContinue = true };
            request.SetBody("the end"u8.ToArray());
            (int status, byte[] body) = await pool.FetchAsync(request).AsTask().WaitAsync(Script.Patience);
            return $"{status} {Encoding.ASCII.GetString(body)}";
        }
    }

    // ------------------------------------------------------------------ redirects, cookies

    [Theory]
    [InlineData(301, "POST", "GET", false)]
    [InlineData(302, "POST", "GET", false)]
    [InlineData(303, "POST", "GET", false)]
    [InlineData(307, "POST", "POST", true)]
    [InlineData(308, "POST", "POST", true)]
    [InlineData(301, "PUT", "PUT", true)]
    [InlineData(303, "PUT", "GET", false)]
    [InlineData(303, "HEAD", "HEAD", false)]
    [InlineData(302, "GET", "GET", false)]
    public async Task Redirects_keep_or_change_the_method(int status, string method, string then, bool keepsBody)
    {
        await using Script script = new(async line =>
        {
            while (await line.HeadAsync() is { } head)
            {
                if (head.Contains("Content-Length: 3", StringComparison.Ordinal)) await line.UntilAsync("abc");
                if (head.Contains(" /a/b ", StringComparison.Ordinal))
                    await line.SendAsync($"HTTP/1.1 {status} Go\r\nLocation: ../c?d\r\nContent-Length: 0\r\n\r\n");
                else await line.SendAsync("HTTP/1.1 204 Done\r\n\r\n");
            }
        });
        await using HttpPool pool = new();
        HttpClientRequest request = new(method, new Uri(script.Url + "/a/b"));
        request.Add("Authorization", "secret");
        if (method is "POST" or "PUT") request.SetBody("abc"u8.ToArray(), "text/plain");
        using HttpClientResponse response = await pool.SendAsync(request);
        Assert.Equal(204, response.Status);
        Assert.Equal(script.Url + "/c?d", response.Request.Uri.ToString());
        Assert.StartsWith($"{then} /c?d HTTP/1.1\r\n", script.Heads[1], StringComparison.Ordinal);
        Assert.Contains("Authorization: secret\r\n", script.Heads[1], StringComparison.Ordinal);
        Assert.Equal(keepsBody, script.Heads[1].Contains("Content-Type: text/plain", StringComparison.Ordinal));
        Assert.Equal(1, pool.ReadCounters().Redirects);
    }

    [Fact]
    public async Task Redirects_have_a_limit_and_credentials_stay_at_their_origin()
    {
        await using Script other = new(line => line.AnswerAllAsync(Script.Ok));
        await using Script script = new(async line =>
        {
            while (await line.HeadAsync() is { } head)
                await line.SendAsync($"HTTP/1.1 302 Go\r\nLocation: "
                    + $"{(head.Contains("/other", StringComparison.Ordinal) ? other.Url : "/loop")}\r\nContent-Length: "
                    + $"0\r\n\r\n");
        });
        await using HttpPool pool = new(new HttpClientOptions { RedirectLimit = 3 });
        Assert.Equal("302 ", await GetAsync(pool, script.Url));
        Assert.Equal(4, script.Heads.Count);
        HttpClientRequest request = new(HttpVerb.Get, script.Url + "/other");
        request.Add("Authorization", "secret");
        request.Add("cookie", "a=b");
        request.Add("X-Mine", "1");
        Assert.Equal(200, (await pool.FetchAsync(request)).Status);
        Assert.DoesNotContain("secret", other.Heads[0], StringComparison.Ordinal);
        Assert.DoesNotContain("a=b", other.Heads[0], StringComparison.Ordinal);
        Assert.Contains("X-Mine: 1", other.Heads[0], StringComparison.Ordinal);
        await using HttpPool none = new(new HttpClientOptions { RedirectLimit = 0 });
        Assert.Equal("302 ", await GetAsync(none, script.Url));
    }

    [Theory]
    [InlineData("ftp://a/")]
    [InlineData("file:///etc/passwd")]
    [InlineData("http://a b/")]
    [InlineData("http:///x")]
    [InlineData("javascript:1")]
    public async Task A_redirect_to_what_cannot_be_asked_is_the_answer(string location)
    {
        await using Script script =
            new(line => line.AnswerAllAsync($"HTTP/1.1 302 Go\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"));
        await using HttpPool pool = new();
        Assert.Equal("302 ", await GetAsync(pool, script.Url));
        Assert.Single(script.Heads);
    }

    [Fact]
    public async Task Cookies_are_kept_and_sent_when_there_is_a_jar()
    {
        await using Script script = new(line => line.AnswerAllAsync("HTTP/1.1 200 OK\r\nSet-Cookie: a=b; "
            + "Path=/x\r\nSet-Cookie: c=d; Path=/\r\nSet-Cookie: =;;\r\nContent-Length: 2\r\n\r\nok"));
        await using HttpPool pool = new(new HttpClientOptions { Cookies = new CookieContainer() }), none = new();
        foreach (string path in (string[])["/", "/x", "/"]) await GetAsync(pool, script.Url + path);
        Assert.DoesNotContain("Cookie", script.Heads[0], StringComparison.Ordinal);
        Assert.Contains("Cookie: a=b; c=d\r\n", script.Heads[1], StringComparison.Ordinal);
        Assert.Contains("Cookie: c=d\r\n", script.Heads[2], StringComparison.Ordinal);
        for (int i = 0; i < 2; i++) await GetAsync(none, script.Url);
        Assert.DoesNotContain("Cookie", script.Heads[^1], StringComparison.Ordinal);
    }

    [Fact]
    public void Mistakes_in_the_options_are_reported_all_at_once()
    {
        ArgumentException e = Assert.Throws<ArgumentException>(() => new HttpPool(new HttpClientOptions
        {
            HeadLimitBytes = 1,
            ConnectionLimit = 0,
            HeadTimeout = TimeSpan.Zero,
            Tls = new TlsOptions { ApplicationProtocols = ["h2", "http/1.1"] },
        }));
        foreach (string name in (string[])["HeadLimitBytes", "ConnectionLimit", "HeadTimeout", "ApplicationProtocols"])
            Assert.Contains(name, e.Message, StringComparison.Ordinal);
    }
}
