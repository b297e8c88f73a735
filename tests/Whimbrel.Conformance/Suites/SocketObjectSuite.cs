using System.Collections.Concurrent;
using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Conformance;

/// <summary>Socket objects for descriptors of the library, and sockets created by user code.</summary>
public abstract class SocketObjectSuite(Transport transport) : Suite(transport)
{
    private static bool IsDisposed(Socket socket) => socket.SafeHandle.IsClosed;

    /// <summary>A hook that creates sockets of a given type, and the created sockets, in order.</summary>
    private static Func<EndPoint, Socket> Making(ConcurrentQueue<Socket> made, SocketType type = SocketType.Stream) =>
        endPoint =>
        {
            Socket socket = new(endPoint.AddressFamily, type, endPoint.AddressFamily == AddressFamily.Unix
                ? ProtocolType.Unspecified : type == SocketType.Stream ? ProtocolType.Tcp : ProtocolType.Udp);
            socket.SendBufferSize = 30_000;
            made.Enqueue(socket);
            return socket;
        };

    // ------------------------------------------------------------------ objects when asked for

    [Fact]
    public void Sessions_and_servers_have_a_socket_object_until_they_end() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        RecordingClient client = rig.MakeClient(server.EndPoint!);
        Assert.Null(client.Socket);
        RecordingSession connected = rig.Connect(client);
        RecordingSession accepted = server.Connected();
        Socket near = connected.Socket!;
        Socket far = accepted.Socket!;
        Socket listening = server.Socket!;
        Assert.Same(near, connected.Socket);
        Assert.Same(near, client.Socket);
        Assert.Same(listening, server.Socket);
        Assert.Equal(0, (int)near.GetSocketOption(SocketOptionLevel.Socket, SocketOptionName.Error)!);
        if (!rig.IsUnix)
        {
            Assert.Equal(server.EndPoint, listening.LocalEndPoint);
            Assert.Equal(server.EndPoint, near.RemoteEndPoint);
            Assert.Equal(accepted.RemoteEndPoint, far.RemoteEndPoint);
            Assert.True(far.NoDelay);
        }

        connected.Send("hello"u8);
        accepted.UntilReceived(5);
        rig.Await(client.DisconnectAsync());
        accepted.End();
        Assert.Null(connected.Socket);
        Assert.Null(accepted.Socket);
        Assert.Null(client.Socket);
        rig.Await(server.StopAsync());
        Assert.Null(server.Socket);
        Assert.True(IsDisposed(near) && IsDisposed(far) && IsDisposed(listening));
    });

    [Fact]
    public void An_object_keeps_no_connection_open_and_its_user_may_dispose_it() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtReceived = static (x, data) => x.Send(data));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        Socket early = session.Socket!;
        early.Blocking = false;
        early.Dispose();
        byte[] data = Pattern(300_000);
        rig.Elsewhere(() => peer.Write(data));
        rig.Join();
        Assert.Equal(data, peer.Read(data.Length));
        Assert.Same(early, session.Socket);

        Peer other = rig.ConnectPeer(server.EndPoint!);
        RecordingSession second = server.Connected(1);
        Assert.NotNull(second.Socket);
        second.Send("bye"u8);
        second.Close();
        Assert.Equal("bye", other.ReadTextToEnd());
        other.Close();
        Assert.Equal(CloseCause.LocalClose, second.End());
    });

    [Fact]
    public void In_callbacks_the_object_is_there_from_the_accept_to_the_end_and_goes_along_with_a_hand_over() =>
        Run(rig =>
        {
            List<bool> there = [];
            Socket? first = null;
            RecordingSession next = new(rig) { IsSuccessor = true };
            RecordingServer server = rig.Serve(s =>
            {
                s.AtConnecting = x => there.Add(x.Socket is not null);
                s.AtConnected = x => first = x.Socket;
                s.AtReceived = (x, _) => x.CallHandOver(next);
                s.AtDisconnected = (x, _) => there.Add(x.Socket is not null);
            });
            next.AtDisconnected = (x, _) => there.Add(x.Socket is not null);
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            peer.Write("x");
            next.Until("connected");
            Assert.Same(first, next.Socket);
            Assert.NotNull(first);
            next.Abort();
            next.End();
            Assert.Equal([true, false, false], there);
            Assert.True(IsDisposed(first));
        });

    [Fact]
    public void Reading_the_socket_while_connections_end_returns_that_connections_object_or_null() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsUnix, "Unix socket clients have no addresses that distinguish them.");
        RecordingServer server = rig.Serve();
        ConcurrentQueue<Session> asked = new();
        using ManualResetEventSlim isOver = new();
        for (int i = 0; i < 2; i++)
        {
            rig.Elsewhere(() =>
            {
                while (!isOver.IsSet)
                {
                    foreach (Session session in asked)
                    {
                        try
                        {
                            if (session.Socket is { } socket && socket.RemoteEndPoint is { } remote)
                                Assert.Equal(session.RemoteEndPoint, remote);
                        }
                        catch (Exception e) when (e is ObjectDisposedException or SocketException)
                        {
                            // It has ended meanwhile.
                        }
                    }
                }
            });
        }

        for (int i = 0; i < 200; i++)
        {
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            RecordingSession session = server.Connected(i);
            asked.Enqueue(session);
            if (asked.Count > 8) asked.TryDequeue(out _);
            session.Abort();
            peer.Close();
        }

        isOver.Set();
        rig.Join();
        rig.Until(() => server.SessionCount == 0, "all to end");
    });

    // ------------------------------------------------------------------ sockets of the user's

    [Fact]
    public void Servers_and_clients_take_the_sockets_that_user_code_makes() => Run(rig =>
    {
        ConcurrentQueue<Socket> made = new();
        RecordingServer server = rig.Serve(
            static s => s.AtReceived = static (x, data) => x.Send(data),
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Socket = new() { Create = Making(made) }
            });
        RecordingClient client = rig.MakeClient(
            new ClientOptions
            {
                Engine = rig.Engine,
                EndPoint = server.EndPoint,
                Socket = new() { Create = Making(made) }
            });
        for (int round = 0; round < 3; round++)
        {
            RecordingSession session = rig.Connect(client);
            Socket[] all = [.. made];
            Assert.Equal(2 + round, all.Length);
            Assert.Same(all[0], server.Socket);
            Assert.Same(all[^1], session.Socket);
            // The kernel doubles the value.
            if (OperatingSystem.IsLinux()) Assert.Equal(60_000, session.Socket!.SendBufferSize);
            byte[] data = Pattern(200_000);
            Assert.Equal(SendResult.Queued, session.Send(data));
            session.UntilReceived(data.Length);
            Assert.Equal(data, session.Received);
            rig.Await(client.DisconnectAsync());
            Assert.True(IsDisposed(all[^1]));
        }

        Assert.False(IsDisposed(made.First()));
        rig.Await(server.StopAsync());
        Assert.True(IsDisposed(made.First()));
    });

    [Fact]
    public void An_unusable_socket_of_the_user_fails_the_start_or_the_connect_with_a_reason() => Run(rig =>
    {
        Socket? taken = null;
        RecordingServer good = rig.Serve();
        (Func<EndPoint, Socket> Create, string Why)[] mistakes =
        [
            (static _ => null!, "gave null"),
            (static _ => throw new FormatException("odd"), "threw FormatException"),
            (e => taken = new Socket(e.AddressFamily, SocketType.Dgram, ProtocolType.Unspecified),
                "which cannot serve"),
            (e => taken = new Socket(e.AddressFamily == AddressFamily.Unix ? AddressFamily.InterNetwork
                : AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified), "which cannot serve"),
            (e =>
            {
                taken = new Socket(e.AddressFamily, SocketType.Stream, ProtocolType.Unspecified);
                taken.Bind(rig.NewAddress());
                return taken;
            }, "bound or connected already"),
        ];
        foreach ((Func<EndPoint, Socket> create, string why) in mistakes)
        {
            RecordingServer server = rig.MakeServer(null,
                new ServerOptions
                {
                    Engine = rig.Engine,
                    EndPoint = rig.NewAddress(),
                    Socket = new() { Create = create }
                });
            NetworkException e = Assert.Throws<NetworkException>(() => rig.Await(server.StartAsync()));
            Assert.Equal(ErrorCategory.User, e.Error.Category);
            Assert.Contains(why, e.Message, StringComparison.Ordinal);
            if (taken is not null) Assert.True(IsDisposed(taken));

            RecordingClient client = rig.MakeClient(
                new ClientOptions
                {
                    Engine = rig.Engine,
                    EndPoint = good.EndPoint,
                    Socket = new() { Create = create }
                });
            e = Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync()));
            Assert.Contains(why, e.Message, StringComparison.Ordinal);
            Assert.Equal("connecting, connect failed SocketOption", client.Attempt().Life);
            if (taken is not null) Assert.True(IsDisposed(taken));
        }
    });

    [Fact]
    public void A_socket_of_the_users_is_disposed_when_nothing_comes_of_it() => Run(rig =>
    {
        ConcurrentQueue<Socket> made = new();
        RecordingServer good = rig.Serve();
        RecordingServer second = rig.MakeServer(null,
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = good.EndPoint,
                Socket = new() { Create = Making(made) }
            });
        Assert.Throws<NetworkException>(() => rig.Await(second.StartAsync()));
        RecordingClient client = rig.MakeClient(
            new ClientOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.DeadAddress(),
                Socket = new() { Create = Making(made) }
            });
        Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync()));
        Assert.Equal(2, made.Count);
        Assert.All(made, static socket => Assert.True(IsDisposed(socket)));
    });

    // ------------------------------------------------------------------ datagrams

    [Fact]
    public void Datagram_sockets_have_an_object_and_take_the_users() => Run(rig =>
    {
        ConcurrentQueue<Socket> made = new();
        DatagramSocket own = new(new DatagramOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() });
        DatagramSocket theirs = new(new DatagramOptions
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            CreateSocket = Making(made, SocketType.Dgram)
        });
        Assert.Null(own.Socket);
        rig.Await(own.StartAsync());
        rig.Await(theirs.StartAsync());
        Socket first = own.Socket!;
        Assert.Same(first, own.Socket);
        Assert.Same(made.Single(), theirs.Socket);
        if (OperatingSystem.IsLinux()) Assert.Equal(60_000, theirs.Socket!.SendBufferSize);
        if (!rig.IsUnix) Assert.Equal(own.EndPoint, first.LocalEndPoint);
        Assert.Equal(SendResult.Queued, theirs.Send("hello"u8, new DatagramPeer(own.EndPoint!)));
        byte[] buffer = new byte[16];
        Assert.Equal(5, rig.Await(own.ReceiveAsync(buffer)).Length);
        Assert.Equal("hello"u8.ToArray(), buffer[..5]);
        rig.Await(own.DisposeAsync());
        rig.Await(theirs.DisposeAsync());
        Assert.Null(own.Socket);
        Assert.True(IsDisposed(first) && IsDisposed(made.Single()));

        DatagramSocket wrong =
            new(new DatagramOptions { Engine = rig.Engine, EndPoint = rig.NewAddress(), CreateSocket = Making(made) });
        NetworkException e = Assert.Throws<NetworkException>(() => rig.Await(wrong.StartAsync()));
        Assert.Equal(ErrorCategory.User, e.Error.Category);
        Assert.Contains("which cannot serve", e.Message, StringComparison.Ordinal);
        rig.Await(wrong.DisposeAsync());
    });
}
