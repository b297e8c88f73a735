namespace Whimbrel.Compat.Tests.Http;

// The original has no limits. Here a program raises those of bodies and messages by CompatOptions.
public sealed class LimitOptionTests : IDisposable
{
    private readonly int _body = CompatOptions.HttpBodyLimitBytes, _message = CompatOptions.WebSocketMessageLimitBytes;

    public void Dispose()
    {
        CompatOptions.HttpBodyLimitBytes = _body;
        CompatOptions.WebSocketMessageLimitBytes = _message;
    }

    [Fact]
    public void A_long_URL_a_large_cookie_and_many_headers_are_served()
    {
        using WebHost host = new();
        string fields = string.Concat(Enumerable.Range(0, 500).Select(static i => $"X{i}: 1\r\n"));
        Assert.StartsWith("HTTP/1.1 200 ", host.Ask($"GET /{new string('u', 20_000)} HTTP/1.1\r\nHost: h\r\n{fields}"
            + $"Cookie: a={new string('c', 20_000)}\r\nConnection: close\r\n\r\n"), StringComparison.Ordinal);
    }

    [Fact]
    public void A_body_above_HttpBodyLimitBytes_gets_413_and_the_limit_is_read_when_the_server_is_created()
    {
        using WebHost before = new();
        CompatOptions.HttpBodyLimitBytes = 10;
        using WebHost host = new();
        foreach (WebHost each in (WebHost[])[before, host])
        {
            Assert.StartsWith("HTTP/1.1 200 ", each.Ask(Put(10)), StringComparison.Ordinal);
            Assert.StartsWith(each == host ? "HTTP/1.1 413 " : "HTTP/1.1 200 ", each.Ask(Put(11)),
                StringComparison.Ordinal);
        }
    }

    private static string Put(int length) =>
        $"PUT / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{new string('b', length)}";

    [Fact]
    public void A_message_above_WebSocketMessageLimitBytes_ends_the_WebSocket_with_1009()
    {
        CompatOptions.WebSocketMessageLimitBytes = 100;
        using WsHost host = new();
        CompatOptions.WebSocketMessageLimitBytes = 1000;
        using Talking client = new(host.PortNumber);
        Assert.True(client.ConnectAsync());
        WebHost.Until(() => client.Told.Contains("connected yes"));
        // Read when the WebSocket opens: both sides have the second value.
        Assert.True(client.SendTextAsync(new string('m', 1000)));
        WebHost.Until(() => host.Told.Contains("message 1000"));
        Assert.True(client.SendTextAsync(new string('m', 1001)));
        WebHost.Until(() => client.Told.Any(static l => l.StartsWith("close 1009", StringComparison.Ordinal)));
    }

    [Fact]
    public void A_limit_out_of_range_throws()
    {
        Assert.Throws<ArgumentOutOfRangeException>(static () => CompatOptions.HttpBodyLimitBytes = -1);
        Assert.Throws<ArgumentOutOfRangeException>(static () => CompatOptions.HttpBodyLimitBytes = (1 << 30) + 1);
        Assert.Throws<ArgumentOutOfRangeException>(static () => CompatOptions.WebSocketMessageLimitBytes = 0);
        Assert.Throws<ArgumentOutOfRangeException>(
            static () => CompatOptions.WebSocketMessageLimitBytes = (1 << 30) + 1);
        CompatOptions.HttpBodyLimitBytes = 1 << 30;
        CompatOptions.WebSocketMessageLimitBytes = 1 << 30;
        Assert.Equal((1 << 30, 1 << 30), (CompatOptions.HttpBodyLimitBytes, CompatOptions.WebSocketMessageLimitBytes));
    }
}
