using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.Serving;

// A server that stops while a response is in progress.
public sealed class StopTests
{
    [Fact]
    public void A_stop_after_the_head_of_an_answer_was_sent_still_closes_after_it()
    {
        using Web web = new();
        TaskCompletionSource go = new();
        web.Server.Get("/", async (_, response, stop) =>
        {
            await response.FlushAsync(stop); // does not announce the close
            await go.Task;
        });
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/"));
        Assert.DoesNotContain("Connection", peer.ReceiveText(), StringComparison.Ordinal);
        Task<StopReport> stopping = web.Server.StopAsync(TimeSpan.FromSeconds(30)).AsTask();
        web.Network.Run();
        Assert.True(peer.IsConnected);
        peer.OnLoop(go.SetResult);
        Assert.Equal("0\r\n\r\n", peer.ReceiveText());
        Assert.True(peer.IsSessionFinished);
        web.Network.Run();
        Assert.True(stopping.IsCompleted);
    }

    [Fact]
    public async Task A_stop_does_not_wait_for_clients_that_keep_an_idle_connection()
    {
        using Web web = new();
        web.Server.Get("/", static (_, response) => response.Text("good"));
        TestPeer peer = web.Connect(), silent = web.Connect();
        peer.Send(Web.Get("/"));
        Assert.Equal(["200 good"], Web.Answers(peer));
        // such a client diagnostic events the close when it sends its next request
        peer.IsReading = silent.IsReading = false;
        Task<StopReport> stopping = web.Server.StopAsync(TimeSpan.FromSeconds(30)).AsTask();
        web.Network.Run();
        Assert.True(stopping.IsCompleted);
        Assert.Equal(new StopReport(2, 0), await stopping);
    }

    [Theory, Trait("Runs", "quiet")]
    [InlineData(false)]
    [InlineData(true)]
    public async Task HttpClient_with_a_kept_connection_does_not_hold_up_the_end_of_a_server(bool isTls)
    {
        await using EngineSite site = new(EngineKind.Portable, isTls, Scheduling.Inline);
        site.Server.Get("/", static (_, response) => response.Text("good"));
        await site.StartAsync();
        Assert.Equal("good", await site.Client.GetStringAsync("/"));
        long beganAt = System.Diagnostics.Stopwatch.GetTimestamp();
        await site.Server.StopAsync(TimeSpan.FromMinutes(5));
        // a close waits 5 s for the peer's FIN
        Assert.InRange(System.Diagnostics.Stopwatch.GetElapsedTime(beganAt), TimeSpan.Zero, TimeSpan.FromSeconds(4.5));
    }

    [Fact]
    public void A_handler_that_awaits_the_stop_of_its_own_server_is_named_at_the_deadline()
    {
        using Web web = new();
        web.Server.Get("/stop", async (_, response, _) =>
        {
            await web.Server.StopAsync(TimeSpan.FromSeconds(5));
            response.Text("stopped");
        });
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/stop"));
        Assert.DoesNotContain(web.Notices, static n => n.Kind == DiagnosticEventKind.StopOverdue);
        web.Network.Advance(TimeSpan.FromSeconds(6));
        DiagnosticEvent notice = Assert.Single(web.Notices, static n => n.Kind == DiagnosticEventKind.StopOverdue);
        Assert.StartsWith("The handler of GET /stop had not ended at the deadline of the server's stop", notice.Message,
            StringComparison.Ordinal);
        Assert.Contains("begin the stop without awaiting it", notice.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void A_handler_that_begins_the_stop_and_answers_is_waited_for()
    {
        using Web web = new();
        Task<StopReport>? stopping = null;
        web.Server.Get("/stop", (_, response) =>
        {
            stopping = web.Server.StopAsync(TimeSpan.FromSeconds(5)).AsTask();
            response.Text("stopping");
        });
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/stop"));
        Assert.Equal(["200 stopping"], Web.Answers(peer));
        peer.Finish();
        web.Network.Run();
        Assert.True(stopping!.IsCompleted);
        Assert.DoesNotContain(web.Notices, static n => n.Kind == DiagnosticEventKind.StopOverdue);
    }
}
