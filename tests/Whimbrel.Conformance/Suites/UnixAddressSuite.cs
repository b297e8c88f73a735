using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Conformance;

/// <summary>Paths of Unix sockets, on engines that have real ones.</summary>
public abstract class UnixAddressSuite(Transport transport) : Suite(transport)
{
    private static NetworkException StartFails(Rig rig, EndPoint endPoint, bool removeStale = true)
    {
        RecordingServer server = rig.MakeServer(null,
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = endPoint,
                Socket = new() { RemoveStaleUnixPath = removeStale }
            });
        NetworkException e = Assert.Throws<NetworkException>(() => rig.Await(server.StartAsync()));
        Assert.Equal(ErrorCategory.Bind, e.Error.Category);
        Assert.Contains(endPoint.ToString()!, e.Message, StringComparison.Ordinal);
        return e;
    }

    /// <summary>Leaves a stale socket file, as a killed process does.</summary>
    private static EndPoint StalePath(Rig rig)
    {
        EndPoint address = rig.NewAddress();
        using Socket socket = new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        // .NET deletes the path when its socket closes: bound under another name, and moved.
        UnixDomainSocketEndPoint other = new(address + "x");
        socket.Bind(other);
        File.Move(other.ToString(), address.ToString()!);
        return address;
    }

    [Fact]
    public void A_path_in_a_missing_folder_is_reported_as_such() => Run(rig =>
    {
        NetworkException e = StartFails(rig,
            new UnixDomainSocketEndPoint(Path.Combine(Path.GetTempPath(), $"missing-{Guid.NewGuid():N}", "a.sock")));
        Assert.Contains("folder", e.Message, StringComparison.Ordinal);
    });

    [Fact]
    public void A_path_left_over_by_a_dead_process_is_replaced() => Run(rig =>
    {
        EndPoint address = StalePath(rig);
        Assert.True(File.Exists(address.ToString()));
        RecordingServer server = rig.Serve(null, new ServerOptions { Engine = rig.Engine, EndPoint = address });
        rig.ConnectPeer(address).Write("x");
        server.Session().UntilReceived(1);
    });

    [Fact]
    public void A_left_over_path_stays_when_it_may_not_be_removed() => Run(rig =>
    {
        EndPoint address = StalePath(rig);
        NetworkException e = StartFails(rig, address, removeStale: false);
        Assert.Contains("already in use", e.Message, StringComparison.Ordinal);
        Assert.True(File.Exists(address.ToString()));
    });

    [Fact]
    public void A_path_with_a_running_server_is_not_stolen() => Run(rig =>
    {
        RecordingServer holder = rig.Serve();
        StartFails(rig, holder.EndPoint!);
        rig.ConnectPeer(holder.EndPoint!).Write("x");
        rig.Until(() => holder.Made.Any(static s => s.ReceivedCount == 1), "the holder to be served still");
    });

    [Fact]
    public void A_file_that_is_no_socket_is_never_removed() => Run(rig =>
    {
        EndPoint address = rig.NewAddress();
        File.WriteAllText(address.ToString()!, "precious");
        StartFails(rig, address);
        Assert.Equal("precious", File.ReadAllText(address.ToString()!));
    });

    [Fact]
    public void The_path_is_gone_after_stop_and_may_be_used_again() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        EndPoint address = server.EndPoint!;
        Assert.True(File.Exists(address.ToString()));
        rig.Await(server.StopAsync());
        Assert.False(File.Exists(address.ToString()));
        rig.Await(server.StartAsync());
        Assert.Equal(address, server.EndPoint);
        rig.ConnectPeer(address).Write("x");
        server.Session().UntilReceived(1);
    });

    [Fact]
    public void A_path_of_the_greatest_length_works() => Run(rig =>
    {
        string folder = Path.GetTempPath().TrimEnd('/');
        string path = $"{folder}/{new string('w', 107 - folder.Length - 1 - 32)}{Guid.NewGuid():N}";
        Assert.Equal(107, path.Length);
        RecordingServer server = rig.Serve(null,
            new ServerOptions { Engine = rig.Engine, EndPoint = new UnixDomainSocketEndPoint(path) });
        RecordingSession client = rig.Connect(server.EndPoint!, static s => s.AtConnected = static x => x.Send("x"u8));
        server.Session().UntilReceived(1);
        Assert.Equal(path, client.RemoteEndPoint!.ToString());
    });

    [Fact]
    public void A_name_without_a_file_works() => Run(rig =>
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Abstract socket names need Linux.");
        RecordingServer server = rig.Serve(null, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoint = new UnixDomainSocketEndPoint($"\0whimbrel-{Guid.NewGuid():N}")
        });
        rig.Connect(server.EndPoint!, static s => s.AtConnected = static x => x.Send("x"u8));
        server.Session().UntilReceived(1);
    });

    [Fact, Contract(1)]
    public void A_connect_to_a_missing_path_is_refused() => Run(rig =>
    {
        RecordingClient client = rig.MakeClient(rig.NewAddress());
        Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync()));
        Assert.Equal("connecting, connect failed Refused", client.Attempt().Life);
    });
}
