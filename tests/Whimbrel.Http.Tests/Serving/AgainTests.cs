using System.Text;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.Serving;

// State of a connection that must be reset between its requests: each of these fails only at the second use.
public sealed class AgainTests
{
    [Fact]
    public void Each_slow_answer_is_judged_from_its_own_beginning()
    {
        using Web web = new(new HttpOptions
        {
            MinBytesPerSecond = 1000,
            RateGrace = TimeSpan.FromSeconds(5),
            KeepAliveTimeout = TimeSpan.FromHours(1),
            ConnectionLifetime = TimeSpan.FromDays(1)
        });
        web.Server.Get("/", static (_, response) => response.Bytes(new byte[1_000_000]));
        TestPeer peer = web.Connect();
        for (int answer = 0; answer < 3; answer++)
        {
            peer.IsReading = false;
            peer.Send(Web.Get("/"));
            for (int second = 0; second < 20; second++)
            {
                web.Network.Advance(TimeSpan.FromSeconds(1));
                peer.ReadAtMost(2000);
            }

            peer.IsReading = true;
            Assert.Equal(1_000_000, Web.One(peer).Body.Length);
            web.Network.Advance(TimeSpan.FromMinutes(30));
            Assert.True(peer.IsConnected);
        }

        Assert.Equal(0, web.Counters.SendTimeouts);
    }

    [Theory] // from both sides: the time between two reads is neither counted nor given twice
    [InlineData(1.9, true)]
    [InlineData(2.2, false)]
    public void Each_pause_of_a_handler_is_left_out_of_the_time_of_its_body(double seconds, bool isInTime)
    {
        using Web web = new(new HttpOptions { MinBytesPerSecond = 100, RateGrace = TimeSpan.FromSeconds(5) });
        TaskCompletionSource[] go = [new(), new(), new(), new()];
        web.Server.Post("/", async (request, response, stop) =>
        {
            byte[] one = new byte[1];
            foreach (TaskCompletionSource each in go)
            {
                await each.Task;
                await request.Body.ReadExactlyAsync(one, stop);
            }

            response.Text("all");
        });
        TestPeer peer = web.Connect();
        peer.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n");
        for (int read = 0; read < 3; read++)
        {
            web.Network.Advance(TimeSpan.FromSeconds(20));
            peer.OnLoop(go[read].SetResult);
            web.Network.Advance(TimeSpan.FromSeconds(1)); // three of five seconds
            peer.Send("x");
        }

        web.Network.Advance(TimeSpan.FromSeconds(20));
        peer.OnLoop(go[3].SetResult);
        web.Network.Advance(TimeSpan.FromSeconds(seconds));
        Assert.Equal(isInTime ? 0 : 1, web.Counters.BodyTimeouts);
        if (!isInTime) return;
        peer.Send("x");
        Assert.Equal(["200 all"], Web.Answers(peer));
    }

    [Fact]
    public void Each_request_that_expects_100_continue_gets_it()
    {
        using Web web = new();
        web.Server.Post("/", static (request, response) => response.Text($"{request.BodyBytes.Length}"));
        TestPeer peer = web.Connect();
        for (int request = 0; request < 3; request++)
        {
            peer.Send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
            Assert.Equal("HTTP/1.1 100 Continue\r\n\r\n", peer.ReceiveText());
            peer.Send("body");
            Assert.Equal(["200 4"], Web.Answers(peer));
        }
    }

    [Fact]
    public void Each_answer_that_may_be_compressed_has_Vary()
    {
        using Web web = new(new HttpOptions { Compression = new HttpCompression() });
        string text = new('x', 10_000);
        web.Server.Get("/", (_, response) => response.Text(text));
        TestPeer peer = web.Connect();
        for (int request = 0; request < 3; request++)
        {
            peer.Send(Web.Get("/"));
            Answer answer = Web.One(peer);
            Assert.Equal(("Accept-Encoding", text), (answer["Vary"], answer.Body));
        }
    }

    [Fact]
    public void An_answer_after_one_with_a_version_is_not_divided()
    {
        using Web web = new();
        web.Server.Get("/version", static (_, response) =>
        {
            if (response.MeetsConditions("\"v1\"")) response.Text("0123456789");
        });
        web.Server.Get("/plain", static (_, response) => response.Text("0123456789"));
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/version") + Web.Get("/plain", "Range: bytes=2-4\r\n")
            + Web.Get("/version", "Range: bytes=2-4\r\n"));
        Assert.Equal(["200 0123456789", "200 0123456789", "206 234"], Web.Answers(peer));
    }

    [Fact]
    public void A_stop_does_not_cancel_an_answer_on_the_connection_of_an_earlier_event_stream()
    {
        using Web web = new();
        web.Server.Get("/events", static async (_, response, stop) =>
            await response.SendEventAsync("one", cancellationToken: stop));
        TaskCompletionSource go = new();
        bool wasCancelled = false;
        web.Server.Get("/slow", async (_, response, stop) =>
        {
            await go.Task;
            wasCancelled = stop.IsCancellationRequested;
            response.Text("done");
        });
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/events"));
        Assert.True(Web.One(peer).IsWhole);
        peer.Send(Web.Get("/slow"));
        ValueTask<StopReport> stopped = web.Server.StopAsync(TimeSpan.FromSeconds(5));
        web.Network.Run();
        peer.OnLoop(go.SetResult);
        Assert.Equal(["200 done"], Web.Answers(peer));
        Assert.False(wasCancelled);
        web.Network.Engine.Run(stopped);
    }

    [Theory] // two features at once: fields of the handler, in any case and any place, and what follows from the body
    [InlineData("content-type", "text/html", "content-type: text/html")]
    [InlineData("Accept-Ranges", "bytes", "")]
    [InlineData("ETag", "W/\"v\"", "ETag: W/\"v\"")]
    [InlineData("ETag", "\"v\"", "ETag: W/\"v\"")]
    public void A_field_of_the_handler_is_there_once_as_it_is_right_for_a_compressed_body(string name, string value,
        string expected)
    {
        using Web web = new(new HttpOptions { Compression = new HttpCompression() });
        web.Server.Get("/", (_, response) =>
        {
            response.Add(name, value);
            response.Text(new string('x', 10_000));
        });
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/", "Accept-Encoding: gzip\r\n"));
        string text = Encoding.Latin1.GetString(peer.Receive());
        string[] lines = text[..text.IndexOf("\r\n\r\n", StringComparison.Ordinal)].Split("\r\n");
        Assert.Contains("Content-Encoding: gzip", lines);
        Assert.Equal(expected,
            string.Join('|', lines.Where(l => l.StartsWith(name, StringComparison.OrdinalIgnoreCase))));
    }

    [Fact]
    public void Each_event_is_sent_at_once_however_large_it_is()
    {
        using Web web = new();
        int[] sizes = [10, 20_000, 10, 100_000, 10];
        TaskCompletionSource[] go = [.. sizes.Select(static _ => new TaskCompletionSource())];
        web.Server.Get("/", async (_, response, stop) =>
        {
            foreach ((int size, TaskCompletionSource may) in sizes.Zip(go))
            {
                await may.Task;
                await response.SendEventAsync(new string('x', size), cancellationToken: stop);
            }
        });
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/"));
        foreach ((int size, TaskCompletionSource may) in sizes.Zip(go))
        {
            peer.OnLoop(may.SetResult);
            web.Network.Run();
            string text = peer.ReceiveText();
            string[] data = text.Split("data: ");
            Assert.Equal(new string('x', size), data[^1].Split('\n')[0]);
            Assert.Contains("x\n\n\r\n", text, StringComparison.Ordinal); // the event and its piece are complete
        }
    }

    [Fact] // of every size beside that of the buffer, each time on one connection
    public void Trailers_of_any_size_follow_their_own_body_and_no_other()
    {
        using Web web = new();
        int[] sizes = [10, 0, 8_000, 0, 16_000, 20_000, 0, 20_000, 100, 0];
        int next = 0;
        web.Server.Get("/", async (_, response, stop) =>
        {
            int size = sizes[next++];
            await response.WriteAsync("body"u8.ToArray(), stop);
            for (int left = size, i = 0; left > 0; left -= 1_000, i++)
                response.AddTrailer($"X-{i}", new string('t', Math.Min(left, 1_000)));
        });
        TestPeer peer = web.Connect();
        foreach (int size in sizes)
        {
            peer.Send(Web.Get("/"));
            Answer answer = Web.One(peer);
            Assert.Equal((200, "body", true), (answer.Status, answer.Body, answer.IsWhole));
            Assert.Equal(size, answer.Trailers.Count(static c => c == 't'));
        }
    }

    [Theory]
    [InlineData(10, true)]
    [InlineData(11, false)]
    public void A_body_of_the_announced_length_is_sent_and_one_byte_more_is_refused(int written, bool isAllowed)
    {
        using Web web = new();
        Exception? thrown = null;
        web.Server.Get("/", async (_, response, stop) =>
        {
            response.BodyLength = 10;
            try
            {
                for (int i = 0; i < written; i++) await response.WriteAsync("x"u8.ToArray(), stop);
            }
            catch (InvalidOperationException e)
            {
                thrown = e;
            }
        });
        TestPeer peer = web.Connect();
        for (int i = 0; i < 2 && peer.IsConnected; i++)
        {
            peer.Send(Web.Get("/"));
            List<Answer> answers = Web.Read(peer);
            Assert.Equal(isAllowed, thrown is null);
            if (isAllowed) Assert.Equal((200, new string('x', 10)), (answers[0].Status, answers[0].Body));
        }
    }
}
