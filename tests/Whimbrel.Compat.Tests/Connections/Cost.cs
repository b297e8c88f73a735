using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Compat.Tests.Connections;

/// <summary>Memory cost of messages and idle connections of an echo server. Counts the whole process; tests of this
/// project run one at a time.</summary>
internal static class Cost
{
    private const int Warm = 2000, Messages = 2000, Connections = 500, Rounds = 3;

    internal static Socket Connect(int port)
    {
        Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp)
        {
            ReceiveTimeout = (int)Log.Patience.TotalMilliseconds
        };
        socket.Connect(IPAddress.Loopback, port);
        return socket;
    }

    /// <summary>Allocated bytes per echo, the minimum of three runs, because the runtime allocates as well.</summary>
    internal static double OfMessage(int port, int size)
    {
        using Socket socket = Connect(port);
        byte[] message = new byte[size], answer = new byte[size];
        return Of(() =>
        {
            socket.Send(message);
            Read(socket, answer);
        });
    }

    /// <summary>Allocated bytes of one call.</summary>
    internal static double Of(Action once)
    {
        for (int i = 0; i < Warm; i++) once();
        long least = long.MaxValue;
        for (int run = 0; run < 3; run++)
        {
            long before = GC.GetTotalAllocatedBytes(precise: true);
            for (int i = 0; i < Messages; i++) once();
            least = Math.Min(least, GC.GetTotalAllocatedBytes(precise: true) - before);
        }

        return (double)least / Messages;
    }

    /// <summary>The minimum of up to eight measurements: code that is not fully optimized yet allocates a little where
    /// it boxes.</summary>
    internal static double Settled(Func<double> measure, double most = 1)
    {
        double cost = double.MaxValue;
        for (int run = 0; run < 8 && cost > most; run++) cost = Math.Min(cost, measure());
        return cost;
    }

    internal static void Read(Socket socket, byte[] target)
    {
        for (int count = 0, got; count < target.Length; count += got)
        {
            got = socket.Receive(target.AsSpan(count));
            if (got == 0) Assert.Fail($"The connection ended after {count} bytes");
        }
    }

    /// <summary> Heap bytes per connection, including the Socket object of this side. The connections were used and are
    /// idle. The median of three rounds, because memory of the previous test that is released during one round would
    /// falsify it. </summary>
    internal static long OfIdleConnection(int port)
    {
        byte[] message = new byte[100];
        return OfIdleConnection(() => Connect(port), socket =>
        {
            socket.Send(message);
            Read(socket, message);
        });
    }

    internal static long OfIdleConnection(Func<Socket> connect, Action<Socket> use)
    {
        List<Socket> sockets = new((Rounds * Connections) + 100);
        long[] held = new long[Rounds];
        try
        {
            Open(100); // allocates types, and the first blocks of all tables
            foreach (ref long round in held.AsSpan())
            {
                long before = Held();
                Open(Connections);
                round = (Held() - before) / Connections;
            }

            Array.Sort(held);
            return held[Rounds / 2];
        }
        finally
        {
            foreach (Socket socket in sockets) socket.Dispose();
        }

        void Open(int count)
        {
            for (int i = 0; i < count; i++)
            {
                Socket socket = connect();
                sockets.Add(socket);
                use(socket);
            }
        }
    }

    // Finalizers of earlier tests must run first, so that their memory does not count as released here.
    private static long Held()
    {
        for (int i = 0; i < 2; i++)
        {
            GC.Collect();
            GC.WaitForPendingFinalizers();
        }

        return GC.GetTotalMemory(forceFullCollection: true);
    }
}
