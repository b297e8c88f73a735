using System.Net.WebSockets;
using Microsoft.AspNetCore.Http.Connections;
using Microsoft.AspNetCore.SignalR.Client;
using Whimbrel.Conformance;
using Whimbrel.Http;

namespace Whimbrel.Kestrel.Tests;

// SignalR's official client on our WebSockets, through its factory: a third-party program written for
// System.Net.WebSockets.WebSocket.
public sealed class SignalRClientTests
{
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(60);

    public static TheoryData<string, bool> Sites
    {
        get
        {
            TheoryData<string, bool> sites = [];
            foreach (string transport in (string[])["stock", "pool", "inline"])
            {
                foreach (bool isTls in (bool[])[false, true]) sites.Add(transport, isTls);
            }

            return sites;
        }
    }

    private static CancellationToken Token => TestContext.Current.CancellationToken;

    private static HubConnection Connect(SampleSite site, bool isTls, Action<WebSocket>? made = null) =>
        new HubConnectionBuilder()
            .WithUrl(new Uri(isTls ? site.Tls : site.Plain, "/chat"), HttpTransportType.WebSockets, options =>
            {
                options.SkipNegotiation = isTls; // its own HTTP client would require a trusted certificate
                options.WebSocketFactory = async (context, stop) =>
                {
                    // As in the guide, except for the test's certificate.
                    WebSocketSession session = await WebSocketSession.ConnectAsync(context.Uri.ToString(),
                        tls: isTls ? TestCertificates.ClientOptions : null, cancellationToken: stop);
                    WebSocket socket = session.AsWebSocket();
                    made?.Invoke(socket);
                    return socket;
                };
            })
            .WithAutomaticReconnect([TimeSpan.Zero, TimeSpan.FromMilliseconds(100), TimeSpan.FromSeconds(1)])
            .Build();

    [Theory]
    [MemberData(nameof(Sites))]
    public async Task A_hub_is_called_and_calls_streams_both_ways_and_is_left(string transport, bool isTls)
    {
        await using SampleSite site = await SampleSite.StartAsync(transport);
        await using HubConnection hub = Connect(site, isTls);
        TaskCompletionSource<(int Length, string Text)> said = new(TaskCreationOptions.RunContinuationsAsynchronously);
        using IDisposable listens = hub.On<int, string>("Said", (length, text) => said.TrySetResult((length, text)));
        using IDisposable answers = hub.On("Name", static () => "whimbrel");
        await hub.StartAsync(Token).WaitAsync(s_patience, Token);
        await hub.SendAsync("Say", "h\u00E4llo", Token);
        Assert.Equal((6, "h\u00E4llo"), await said.Task.WaitAsync(s_patience, Token));
        Assert.Equal("whimbrel", await hub.InvokeAsync<string>("AskBack", Token).WaitAsync(s_patience, Token));

        // From messages that fit into one frame to messages in many pieces, in both directions.
        foreach (int length in (int[])[0, 1, 125, 4096, 65_536, 1_000_000])
        {
            string text = string.Concat(Enumerable.Range(0, length).Select(static i => (char)('a' + (i % 23))));
            Assert.Equal(text + text, await hub.InvokeAsync<string>("Twice", text, Token).WaitAsync(s_patience, Token));
        }

        int next = 0;
        await foreach (int number in hub.StreamAsync<int>("Count", 2000, Token)) Assert.Equal(next++, number);
        Assert.Equal(2000, next);
        Assert.Equal(1_999_000, await hub.InvokeAsync<long>("Sum", Numbers(2000), Token).WaitAsync(s_patience, Token));

        // Many concurrent calls share one socket.
        string[] all = await Task.WhenAll(Enumerable.Range(0, 100)
            .Select(i => hub.InvokeAsync<string>("Twice", $"{i}.", Token))).WaitAsync(s_patience, Token);
        Assert.Equal(Enumerable.Range(0, 100).Select(static i => $"{i}.{i}."), all);
        await hub.StopAsync(Token).WaitAsync(s_patience, Token);
        Assert.Equal(HubConnectionState.Disconnected, hub.State);
    }

    [Theory]
    [MemberData(nameof(Sites))]
    public async Task It_comes_back_when_the_server_drops_it_and_sees_a_stop(string transport, bool isTls)
    {
        SampleSite site = await SampleSite.StartAsync(transport);
        List<WebSocket> sockets = [];
        await using HubConnection hub = Connect(site, isTls, sockets.Add);
        TaskCompletionSource back = new(TaskCreationOptions.RunContinuationsAsynchronously);
        TaskCompletionSource<Exception?> closed = new(TaskCreationOptions.RunContinuationsAsynchronously);
        hub.Reconnected += _ =>
        {
            back.TrySetResult();
            return Task.CompletedTask;
        };
        hub.Closed += e =>
        {
            closed.TrySetResult(e);
            return Task.CompletedTask;
        };
        await hub.StartAsync(Token).WaitAsync(s_patience, Token);
        // The call fails with the connection, unless the response was faster.
        await Assert.ThrowsAnyAsync<Exception>(() => hub.InvokeAsync<string>("Drop", Token))
            .WaitAsync(s_patience, Token);
        await back.Task.WaitAsync(s_patience, Token);
        Assert.Equal(2, sockets.Count);
        Assert.NotEqual(WebSocketState.Open, sockets[0].State);
        Assert.Equal("xx", await hub.InvokeAsync<string>("Twice", "x", Token).WaitAsync(s_patience, Token));

        await site.DisposeAsync();
        await closed.Task.WaitAsync(s_patience, Token);
        Assert.Equal(HubConnectionState.Disconnected, hub.State);
    }

    private static async IAsyncEnumerable<int> Numbers(int to)
    {
        for (int i = 0; i < to; i++)
        {
            if (i % 100 == 0) await Task.Yield();
            yield return i;
        }
    }
}
