using System.Text;
using CSharpServer;
using Whimbrel.Compat.Tests.Connections;

namespace Whimbrel.Compat.Tests.CSharp;

// Behaviour of TCP that programs of CSharpServer rely on: order, states, results.
public sealed class CSharpTcpTests : IDisposable
{
    private readonly Service _service = new(2);
    private readonly Log _log = new(), _clients = new();
    private readonly RecordingServer _server;

    public CSharpTcpTests()
    {
        _server = new(_service, _log);
        Assert.True(_service.Start());
    }

    public void Dispose()
    {
        _server.Dispose();
        _service.Dispose();
    }

    private RecordingClient Client() => new(_service, _clients, "127.0.0.1", _server.Port);

    [Fact]
    public void One_connection_is_reported_in_the_old_order()
    {
        Assert.True(_server.Start());
        Assert.False(_server.Start());
        using RecordingClient client = Client();
        client.AtConnected = static c => Assert.True(c.SendAsync("hello"));
        Assert.True(client.ConnectAsync());
        Assert.False(client.ConnectAsync());
        _clients.Until("client: received hello");
        Assert.Equal(client.Id, client.Id.ToLowerInvariant());
        Assert.True(client.Disconnect());
        Assert.False(client.Disconnect());
        Assert.False(client.SendAsync("late"));
        Assert.Equal(0, client.Send("late"));
        _log.Until("server: disconnected");
        Assert.True(_server.Stop());
        Assert.False(_server.Stop());
        Assert.Equal(
            ["started True", "session: connected True True", "server: connected", "session: received hello",
                "session: disconnected False False", "server: disconnected", "stopped False 0"],
            _log.Lines);
        Assert.Equal(["client: connected True", "client: received hello", "client: disconnected False"],
            _clients.Lines.Where(static l => l != "client: empty"));
        Assert.Equal((5, 5), (client.BytesSent, client.BytesReceived));
    }

    [Fact]
    public void Received_data_is_in_a_separate_array()
    {
        Assert.True(_server.Start());
        using RecordingClient client = Client();
        client.ConnectAsync();
        _clients.Until("client: connected True");
        foreach (string text in (string[])["one", "three"])
        {
            Assert.Equal(text.Length, client.Send(text));
            _log.Until("session: received " + text);
        }

        Assert.DoesNotContain("session: the same array", _log.Lines);
        Assert.DoesNotContain("session: a longer array", _log.Lines);
    }

    [Fact]
    public void A_failed_connect_is_reported_as_disconnected_only()
    {
        Assert.True(_server.Start());
        using RecordingClient client = Client();
        Assert.True(_server.Stop());
        int tries = 0;
        client.AtDisconnected = c =>
        {
            if (++tries < 3) Assert.True(c.ConnectAsync());
        };
        Assert.True(client.ConnectAsync());
        _clients.Until("client: disconnected False", 3);
        Assert.Equal(["client: disconnected False", "client: disconnected False", "client: disconnected False"],
            _clients.Lines);
    }

    [Fact]
    public void A_name_needs_a_resolver()
    {
        Assert.True(_server.Start());
        using RecordingClient client = new(_service, _clients, "localhost", _server.Port);
        Assert.False(client.Connect());
        Assert.Equal(["client: error 22 system", "client: disconnected False"], _clients.Lines);
        using TcpResolver resolver = new(_service);
        Assert.True(client.Connect(resolver));
        resolver.Cancel(); // no lookup is in progress
        Assert.True(client.IsConnected);
    }

    [Fact]
    public void Blocking_calls_time_out_and_the_connection_stays()
    {
        Assert.True(_server.Start());
        using RecordingClient client = Client();
        Assert.True(client.Connect());
        byte[] buffer = new byte[16];
        Assert.Equal(0, client.Receive(buffer, TimeSpan.FromMilliseconds(20)));
        Assert.Equal("", client.Receive(5, TimeSpan.FromMilliseconds(20)));
        Assert.True(client.IsConnected);
        Assert.Equal(4, client.Send("ping", TimeSpan.FromSeconds(20)));
        Assert.Equal("ping", client.Receive(4, TimeSpan.FromSeconds(20)));
        Assert.Equal(1, _clients.Count("client: received ping"));
        Assert.True(client.Reconnect());
        Assert.True(client.DisconnectAsync());
    }

    [Fact]
    public void OnSending_refuses_sends_and_multicasts()
    {
        Assert.True(_server.Start());
        using RecordingClient client = Client();
        client.ConnectAsync();
        _log.Until("server: connected");
        _clients.Until("client: connected True");
        _server.Refuses = true;
        Assert.True(_server.Multicast("refused"));
        _server.Refuses = false;
        Assert.True(_server.Multicast(Encoding.UTF8.GetBytes(".taken."), 1, 5));
        _clients.Until("client: received taken");
        Assert.DoesNotContain("client: received refused", _clients.Lines);
    }

    [Fact]
    public void A_restart_keeps_the_chosen_port_with_sessions_open()
    {
        Assert.True(_server.Start());
        int port = _server.Port;
        using RecordingClient client = Client();
        client.ConnectAsync();
        _log.Until("server: connected");
        Assert.True(_server.Restart());
        Assert.Equal(port, _server.Port);
        _clients.Until("client: disconnected False");
        Assert.True(client.ConnectAsync());
        _log.Until("server: connected", 2);
        Assert.True(_server.DisconnectAll());
        _clients.Until("client: disconnected False", 2);
    }

    [Fact]
    public void A_port_that_is_taken_is_an_error_of_the_server()
    {
        Assert.True(_server.Start());
        using RecordingServer second = new(_service, _log, _server.Port);
        Assert.False(second.Start());
        Assert.False(second.IsStarted);
        Assert.Equal(1, _log.Count("server: error 98 system"));
    }

    [Fact]
    public void Objects_started_before_the_service_start_with_it_and_outlive_its_restart()
    {
        Assert.True(_service.Stop());
        Assert.True(_server.Start());
        Assert.False(_server.IsStarted);
        Assert.True(_service.Start());
        Assert.True(_server.IsStarted);
        Assert.True(_service.Restart());
        Assert.False(_server.IsStarted);
        Assert.True(_server.Start());
        using RecordingClient client = Client();
        Assert.True(client.Connect());
    }

    [Fact]
    public void A_callback_that_throws_ends_its_session_alone()
    {
        Assert.True(_server.Start());
        using RecordingClient client = Client();
        client.AtConnected = static c => c.SendAsync("throw");
        client.ConnectAsync();
        _clients.Until("client: disconnected False");
        _log.Until("server: disconnected");
        Assert.Equal(1, _log.Count("session: error -1 whimbrel.callback"));
        Assert.True(client.Connect());
    }
}
