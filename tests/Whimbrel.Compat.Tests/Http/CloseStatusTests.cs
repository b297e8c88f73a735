using System.Net.Sockets;
using System.Text;
using Whimbrel.Compat.Tests.Connections;

namespace Whimbrel.Compat.Tests.Http;

// Programs of the old library close with any number. Only statuses that RFC 6455 permits are sent.
public sealed class CloseStatusTests
{
    public static TheoryData<int, string?, int, string> Cases() => new()
    {
        { 0, null, -1, "" },
        { 100, null, 1000, "" },
        { 100, "bye", 1000, "bye" },
        { 0, "bye", 1000, "bye" },
        { -1, null, 1000, "" },
        { 1004, null, 1000, "" },
        { 1005, null, 1000, "" },
        { 1006, null, 1000, "" },
        { 1015, null, 1000, "" },
        { 2999, null, 1000, "" },
        { 5000, null, 1000, "" },
        { 99_999, null, 1000, "" },
        { 1000, "done", 1000, "done" },
        { 1003, null, 1003, "" },
        { 1007, null, 1007, "" },
        { 1014, null, 1014, "" },
        { 3000, null, 3000, "" },
        { 4999, "own", 4999, "own" },
        { 1001, new string('x', 200), 1001, new string('x', 123) },
        { 1001, new string('x', 122) + "é", 1001, new string('x', 122) },
    };

    [Theory]
    [MemberData(nameof(Cases))]
    public void CloseAsync_accepts_any_status_and_sends_one_that_is_allowed(int status, string? reason, int expected,
        string text)
    {
        using WsHost host = new();
        using Talking client = new(host.PortNumber);
        Assert.True(client.ConnectAsync());
        WebHost.Until(() => client.Told.Contains("connected yes"));
        Assert.True(reason is null ? client.CloseAsync(status) : client.CloseAsync(status, reason));
        WebHost.Until(() => host.Told.Contains("disconnected"));
        // A close without status is reported as 1000 by the receiving side, as in the original.
        Assert.Contains($"close {(expected < 0 ? 1000 : expected)} {text}", host.Told);
        Assert.DoesNotContain(host.Told, static line => line.StartsWith("wrong", StringComparison.Ordinal));
    }

    [Theory]
    [MemberData(nameof(Cases))]
    public void SendClose_and_CloseAll_of_a_server_write_the_same_frame(int status, string? reason, int expected,
        string text)
    {
        using WsHost host = new();
        using Socket peer = Cost.Connect(host.PortNumber);
        peer.Send(Encoding.ASCII.GetBytes(WebSocketConnectionTests.Asking));
        WebHost.Read(peer, "\r\n\r\n");
        Assert.True(reason is null ? host.CloseAll(status) : host.CloseAll(status, reason));
        byte[] frame = ReadToEnd(peer);
        byte[] payload = expected < 0 ? [] : [(byte)(expected >> 8), (byte)expected, .. Encoding.UTF8.GetBytes(text)];
        byte[] whole = [0x88, (byte)payload.Length, .. payload];
        Assert.Equal(whole, frame);
    }

    [Fact]
    public void A_reason_ends_before_bytes_that_are_not_UTF8()
    {
        using WsHost host = new();
        using Talking client = new(host.PortNumber);
        Assert.True(client.ConnectAsync());
        WebHost.Until(() => client.Told.Contains("connected yes"));
        Assert.True(client.CloseAsync(1001, [(byte)'o', (byte)'k', 0xFF, (byte)'x']));
        WebHost.Until(() => host.Told.Contains("close 1001 ok"));
    }

    private static byte[] ReadToEnd(Socket peer)
    {
        peer.ReceiveTimeout = (int)Log.Patience.TotalMilliseconds;
        List<byte> all = [];
        byte[] buffer = new byte[1024];
        for (int count; (count = peer.Receive(buffer)) > 0;) all.AddRange(buffer.AsSpan(0, count));
        return [.. all];
    }
}
