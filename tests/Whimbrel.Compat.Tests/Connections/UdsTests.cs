using System.Net.Sockets;
using System.Text;
using NetCoreServer;

namespace Whimbrel.Compat.Tests.Connections;

public sealed class UdsTests
{
    [Fact]
    public void A_chat_works_its_path_is_deleted_by_the_stop_and_a_stale_one_is_replaced()
    {
        string path = Path.Combine(Path.GetTempPath(), $"whimbrel-compat-{Guid.NewGuid():n}.sock");
        Log log = new();
        using Server server = new(path, log);
        Assert.True(server.Start());
        Assert.True(File.Exists(path));
        using Client client = new(path, log);
        Assert.True(client.Connect());
        client.ReceiveAsync();
        log.Until("server: connected");
        Assert.True(client.SendAsync("hello"));
        log.Until("client: hello");
        Assert.True(server.Multicast("all"));
        log.Until("client: all");
        Assert.True(server.Restart());
        log.Until("client: disconnected");
        Assert.True(client.ConnectAsync());
        log.Until("server: connected", 2);
        Assert.True(server.Stop());
        Assert.False(File.Exists(path));

        using (Socket stale = new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified))
            stale.Bind(new UnixDomainSocketEndPoint(path));
        Assert.True(server.Start());
        Assert.False(client.Connect() && !client.IsConnected);
        server.Stop();
    }

    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public void A_server_that_creates_no_session_gets_an_error_and_continues(Scheduling callbacks)
    {
        using Setting setting = new(callbacks);
        string path = Path.Combine(Path.GetTempPath(), $"whimbrel-compat-{Guid.NewGuid():n}.sock");
        Log log = new();
        using Server server = new(path, log) { Makes = false };
        Assert.True(server.Start());
        using Client client = new(path, log);
        Assert.True(client.ConnectAsync());
        log.Until("server: error SocketError");
        log.Until("client: disconnected");
        server.Makes = true;
        Assert.True(client.ConnectAsync());
        log.Until("server: connected");
        Assert.Equal(1, log.Count("server: error SocketError"));
    }

    private sealed class Server(string path, Log log) : UdsServer(path)
    {
        private volatile bool _makes = true;

        internal bool Makes
        {
            set => _makes = value;
        }

        protected override UdsSession CreateSession() =>
            _makes ? new Echo(this) : throw new FormatException("no session");

        protected override void OnError(SocketError error) => log.Add($"server: error {error}");

        protected override void OnConnected(UdsSession session) => log.Add("server: connected");
    }

    private sealed class Echo(UdsServer server) : UdsSession(server)
    {
        protected override void OnReceived(byte[] buffer, long offset, long size) => SendAsync(buffer, offset, size);
    }

    private sealed class Client(string path, Log log) : UdsClient(path)
    {
        protected override void OnReceived(byte[] buffer, long offset, long size) =>
            log.Add("client: " + Encoding.UTF8.GetString(buffer, (int)offset, (int)size));

        protected override void OnDisconnected() => log.Add("client: disconnected");
    }
}
