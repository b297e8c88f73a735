using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.Serving;

// A server that stops while an answer is on its way.
public sealed class StopTests
{
    [Fact]
    public void A_stop_that_comes_when_the_head_of_an_answer_has_left_still_closes_behind_it()
    {
        using Web web = new();
        TaskCompletionSource go = new();
        web.Server.Get("/", async (_, response, stop) =>
        {
            await response.FlushAsync(stop); // says nothing of a close
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
}
