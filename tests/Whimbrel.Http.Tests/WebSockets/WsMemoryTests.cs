using System.Runtime.CompilerServices;

namespace Whimbrel.Http.Tests.WebSockets;

// Memory of a connection while it is idle (design 37).
public sealed class WsMemoryTests
{
    private const int MostSessionBytes = 456; // 24 of them keep messages and the close frame in one order

    public static TheoryData<EngineKind> Kinds => [EngineKind.Epoll, EngineKind.Uring, EngineKind.Portable];

    [Fact]
    public void A_session_without_compression_is_small()
    {
        // The first connection also allocates what is shared.
        Make();
        long before = GC.GetAllocatedBytesForCurrentThread();
        Session made = Make();
        Assert.InRange(GC.GetAllocatedBytesForCurrentThread() - before, 1, MostSessionBytes);
        GC.KeepAlive(made);

        [MethodImpl(MethodImplOptions.NoInlining)]
        static Session Make() => new Echo();
    }

    [Theory, MemberData(nameof(Kinds))]
    public async Task Nothing_of_the_HTTP_session_remains_after_the_upgrade(EngineKind kind)
    {
        await using WsSite site = new(kind);
        WeakReference? http = null;
        site.Server.WebSocket("/ws", request =>
        {
            http = new WeakReference(request.Session);
            return new Echo();
        });
        await site.Server.StartAsync();
        using CancellationTokenSource limit = new(WsSite.Patience);
        using System.Net.WebSockets.ClientWebSocket socket = await site.ConnectNetAsync(limit.Token);
        await EchoAsync();
        while (http!.IsAlive)
        {
            limit.Token.ThrowIfCancellationRequested();
            // Another message releases references that the loop's thread still has in registers.
            await EchoAsync();
            GC.Collect();
        }

        Assert.Equal(1, site.Server.Sessions.Count);
        await EchoAsync();

        async Task EchoAsync()
        {
            byte[] into = new byte[8];
            await socket.SendAsync(new byte[] { 1, 2, 3 }, System.Net.WebSockets.WebSocketMessageType.Binary, true,
                limit.Token);
            Assert.Equal(3, (await socket.ReceiveAsync(into, limit.Token)).Count);
        }
    }

    private sealed class Echo : WebSocketSession
    {
        protected override void OnBinary(ReadOnlySpan<byte> data) => SendBinary(data);
    }
}
