using System.Text;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.Serving;

// What a request leaves to the next one of its connection, and to the connection: pauses, types, bodies, timers.
public sealed class SecondRequestTests
{
    [Fact]
    public void Unread_bodies_of_several_requests_are_skipped_up_to_the_limit_each()
    {
        using Web web = new(new HttpOptions { SkipLimitBytes = 1000 });
        web.Server.Get("/", static (_, response) => response.Text("ok"));
        TestPeer peer = web.Connect();
        for (int again = 0; again < 5; again++)
        {
            peer.Send(Web.Post("/", new string('x', 1000)));
            Assert.Equal((405, true), (Web.One(peer).Status, peer.IsConnected));
        }

        Assert.Equal(0, web.Counters.SkipLimits);
    }

    [Fact]
    public void Type_and_compression_of_an_answer_are_not_those_of_the_one_before()
    {
        using Web web = new(new HttpOptions { Compression = new HttpCompression() });
        string text = new('x', 5000);
        web.Server.Get("/typed", (_, response) =>
        {
            response.MayCompress = false;
            response.Add("Content-Type", "text/css");
            response.Add("X-Own", "1");
            response.Text(text);
        });
        web.Server.Get("/plain", (_, response) => response.Text(text));
        TestPeer peer = web.Connect();
        for (int again = 0; again < 2; again++)
        {
            peer.Send(Web.Get("/typed", "Accept-Encoding: gzip\r\n") + Web.Get("/plain", "Accept-Encoding: gzip\r\n"));
            List<Answer> answers = Web.Read(peer);
            Assert.Equal(("text/css", "", "1", ""),
                (answers[0]["Content-Type"], answers[0]["Content-Encoding"], answers[0]["X-Own"], answers[0]["Vary"]));
            Assert.Equal(("text/plain; charset=utf-8", "gzip", "", "Accept-Encoding"),
                (answers[1]["Content-Type"], answers[1]["Content-Encoding"], answers[1]["X-Own"], answers[1]["Vary"]));
        }
    }

    // If the pause of the first were remembered, the second would be taken in without a limit.
    [Fact]
    public void Data_sent_ahead_of_each_of_two_answers_pauses_the_peer()
    {
        using Web web = new(new HttpOptions { PipelineLimitBytes = 2000 });
        TaskCompletionSource[] ready = [new(), new()];
        int served = 0;
        web.Server.Get("/wait", async (_, response, _) =>
        {
            await ready[served++].Task;
            response.Text("x");
        });
        TestPeer peer = web.Connect();
        string ahead = Web.Get("/none", $"X: {new string('x', 3000)}\r\n");
        for (int again = 0; again < 2; again++)
        {
            peer.Send(Web.Get("/wait"));
            peer.Send(ahead);
            Assert.Equal((true, again + 1), (peer.IsPaused, web.Counters.PipelinePauses));
            peer.OnLoop(ready[again].SetResult);
            Assert.Equal((2, false), (Web.Read(peer).Count, peer.IsPaused));
        }
    }

    // What is left of a body is back-pressure: the counter is for requests that are sent ahead.
    [Fact]
    public void A_body_that_its_handler_does_not_read_pauses_the_peer_and_is_not_counted_as_sent_ahead()
    {
        using Web web = new(new HttpOptions { PipelineLimitBytes = 2000 });
        TaskCompletionSource ready = new();
        web.Server.Post("/", async (request, response, stop) =>
        {
            await ready.Task;
            response.Text($"{(await request.ReadBodyAsync(stop)).Length}");
        });
        TestPeer peer = web.Connect();
        peer.Send(Web.Post("/", new string('x', 200_000)));
        Assert.Equal((true, 0L), (peer.IsPaused, web.Counters.PipelinePauses));
        peer.OnLoop(ready.SetResult);
        Assert.Equal(["200 200000"], Web.Answers(peer));
    }

    [Fact]
    public void Timers_of_connections_that_have_ended_do_not_add_up()
    {
        using Web web = new();
        web.Server.Get("/", static (_, response) => response.Text("x"));
        int before = Timers();
        for (int i = 0; i < 100; i++)
        {
            TestPeer peer = web.Connect();
            peer.Send(Web.Get("/"));
            Assert.Equal(["200 x"], Web.Answers(peer));
            Assert.InRange(Timers() - before, 1, 2);
            peer.Finish();
        }

        web.Network.Run();
        Assert.Equal(before, Timers());

        int Timers() => web.Network.Engine.GetLoop(0).ReadCounters().Timers;
    }

    [Fact]
    public void A_body_of_one_request_is_not_a_part_of_the_next()
    {
        using Web web = new();
        web.Server.Post("/", Show);
        web.Server.Get("/", Show);
        TestPeer peer = web.Connect();
        const string Chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        peer.Send(Chunked + "4\r\nlong\r\n0\r\nX-Sum: 1\r\n\r\n" + Chunked
            + "1\r\ns\r\n0\r\nX-Sum: 2\r\n\r\n" + Web.Get("/"));
        Assert.Equal(["200 long|1", "200 s|2", "200 |none"], Web.Answers(peer));

        static void Show(HttpRequest request, HttpResponse response) =>
            response.Text($"{Encoding.ASCII.GetString(request.BodyBytes)}|"
                + (request.TryGetTrailer("x-sum"u8, out ReadOnlySpan<byte> sum)
                    ? Encoding.ASCII.GetString(sum) : "none"));
    }
}
