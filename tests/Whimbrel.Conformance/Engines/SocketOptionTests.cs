namespace Whimbrel.Conformance;

public sealed class EpollTcpSocketOptions() : SocketOptionSuite(Transport.EpollTcp);

public sealed class EpollUnixSocketOptions() : UnixSocketOptionSuite(Transport.EpollUnix);

#if PORTABLE
public sealed class PortableTcpSocketOptions() : SocketOptionSuite(Transport.PortableTcp);

public sealed class PortableUnixSocketOptions() : UnixSocketOptionSuite(Transport.PortableUnix);
#endif

#if MEMORY
public sealed class MemorySocketOptions() : Suite(Transport.MemoryTcp)
{
    [Fact]
    public void The_options_of_production_are_accepted_and_the_hook_is_not_called() => Run(rig =>
    {
        static void Refuse(NewSocket socket) => throw new NotSupportedException("there is no socket");
        RecordingServer server = rig.Serve(null, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            Socket = new()
            {
                KeepAlive = true,
                Mark = 7,
                FastOpenQueue = 16,
                BindToDevice = "eth7",
                OnCreated = Refuse,
                Create = static _ => throw new NotSupportedException("there is no socket")
            }
        });
        RecordingClient client = rig.MakeClient(new ClientOptions
        {
            Engine = rig.Engine,
            EndPoint = server.EndPoint,
            Socket = new() { FastOpen = true, TypeOfService = 8, OnCreated = Refuse }
        });
        rig.Connect(client);
        Assert.Null(server.Connected().Socket);
        Assert.Null(server.Socket);
        ServerOptions wrong =
            new()
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Socket = new() { KeepAlive = true, KeepAliveCount = 128 }
            };
        Assert.Contains("Socket.KeepAliveCount = 128",
            Assert.Throws<ArgumentException>(() => wrong.Validate(rig.Engine)).Message, StringComparison.Ordinal);
    });
}
#endif
