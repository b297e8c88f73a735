using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Conformance;

/// <summary>The backlog, observed from outside: number of connects that the kernel completes while the server does not
/// accept. TCP on Linux.</summary>
public sealed class BacklogTests
{
    [Theory]
    [InlineData(EngineKind.Epoll)]
    [InlineData(EngineKind.Portable)]
    public void The_backlog_limits_the_number_of_pending_connections(EngineKind kind)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Only Linux reports the buffer size exactly.");
        const int backlog = 5;
        RealRig rig = new(kind, isUnix: false, loops: 1);
        RecordingServer server = rig.Serve(static s => s.AtConnected = static x => x.Send("in"u8), new ServerOptions
        {
            Engine = rig.Engine,
            EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
            Socket = new() { Backlog = backlog }
        });
        List<Socket> sockets = [];
        List<Socket> completed = [];
        rig.OnLoop(rig.Engine.GetLoop(0), () =>
        {
            // This loop is blocked and accepts nothing. Connects above the limit stay pending, because their packets
            // are dropped.
            for (int i = 0; i < 3 * backlog; i++)
            {
                Socket socket =
                    new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { Blocking = false };
                sockets.Add(socket);
                try
                {
                    socket.Connect(server.EndPoint!);
                }
                catch (SocketException e) when (e.SocketErrorCode == SocketError.WouldBlock)
                {
                    // Pending; on loopback it completes immediately or not at all.
                }

                if (socket.Poll(TimeSpan.FromMilliseconds(1), SelectMode.SelectWrite)) completed.Add(socket);
            }
        });

        // Linux queues one connection more than the backlog; the runtime of the portable engine may have accepted one
        // meanwhile.
        Assert.InRange(completed.Count, backlog, backlog + 2);
        foreach (Socket socket in completed)
        {
            byte[] answer = new byte[2];
            int done = 0;
            rig.Until(() => socket.Available >= answer.Length, "the pending connections to be served");
            while (done < answer.Length) done += socket.Receive(answer, done, answer.Length - done, SocketFlags.None);
        }

        foreach (Socket socket in sockets) socket.Dispose();
        rig.Finish();
    }
}
