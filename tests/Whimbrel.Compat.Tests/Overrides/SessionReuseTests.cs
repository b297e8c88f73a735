using System.Net.Sockets;
using NetCoreServer;
using Whimbrel.Compat.Tests.Connections;

namespace Whimbrel.Compat.Tests.Overrides;

// CreateSession that returns an object again: one that has a connection is refused, one whose connection has ended is
// used again, as in the original.
public sealed class SessionReuseTests
{
    [Fact]
    public void A_session_that_has_a_connection_is_refused_and_the_first_connection_stays()
    {
        Log log = new();
        RecordingSession? only = null;
        using RecordingServer server = new(log) { Make = own => only ??= new RecordingSession(own) };
        server.Start();
        using Socket first = Cost.Connect(server.Chosen);
        log.Until("server: connected");
        using Socket second = Cost.Connect(server.Chosen);
        log.Until("server: error SocketError");
        Assert.Equal(0, second.Receive(new byte[1]));
        first.Send("still"u8);
        log.Until("session: received still");
        Assert.Equal(1, server.ConnectedSessions);
    }

    [Fact]
    public void A_session_whose_connection_has_ended_gets_all_callbacks_of_the_next_one()
    {
        Log log = new();
        RecordingSession? only = null;
        using RecordingServer server = new(log) { Make = own => only ??= new RecordingSession(own) };
        server.Start();
        for (int times = 1; times <= 3; times++)
        {
            using (Socket peer = Cost.Connect(server.Chosen))
            {
                log.Until("server: connected", times);
                peer.Send("x"u8);
                log.Until("session: received x", times);
            }

            log.Until("server: disconnected", times);
            Log.Until(() => server.ConnectedSessions == 0, "the end");
        }

        Assert.Equal(3, log.Count("session: disconnecting True"));
        Assert.Equal(3, log.Count("session: disconnected False"));
    }

    [Fact]
    public void Reconnect_in_a_callback_reports_the_end_of_the_first_connection()
    {
        using RecordingServer server = new(new Log());
        server.Start();
        Log log = new();
        using Reconnecting client = new(log, server.Chosen);
        client.ConnectAsync();
        log.Until("reconnect True");
        Assert.Equal(["connected", "disconnected", "connected", "reconnect True"], log.Lines);
        Assert.True(client.IsConnected);
    }

    private sealed class Reconnecting(Log log, int port) : NetCoreServer.TcpClient("127.0.0.1", port)
    {
        private bool _isSecond;

        protected override void OnConnected()
        {
            log.Add("connected");
            if (!_isSecond) SendAsync("x");
        }

        protected override void OnReceived(byte[] buffer, long offset, long size)
        {
            if (_isSecond) return;
            _isSecond = true;
            log.Add($"reconnect {Reconnect()}");
        }

        protected override void OnDisconnected()
        {
            if (log.Lines.Length < 3) log.Add("disconnected");
        }
    }
}
