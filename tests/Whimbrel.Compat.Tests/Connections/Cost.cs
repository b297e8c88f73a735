using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Compat.Tests.Connections;

/// <summary>What messages and idle connections of a server that echoes cost in memory. The whole process is counted; tests run one after the other.</summary>
internal static class Cost
{
    private const int Warm = 2000, Messages = 2000, Connections = 500, Rounds = 3;

    internal static Socket Connect(int port)
    {
        Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { ReceiveTimeout = (int)Log.Patience.TotalMilliseconds };
        socket.Connect(IPAddress.Loopback, port);
        return socket;
    }

    /// <summary>Allocated bytes of one echo, of the cheapest of three runs: the runtime does things of its own meanwhile.</summary>
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

    /// <summary>The least of up to eight measurements: code that the compiler has not gone over again allocates a little where it boxes.</summary>
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

    /// <summary>
    /// Bytes of the heap that a connection holds, with the Socket object of this side. It was in use, and is idle again. The middle of three
    /// rounds: what the test before this one held a little longer is given back in one of them, and would count against it.
    /// </summary>
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
            Open(100); // types, and the first blocks of all tables
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

    // What tests before this one left to finalizers is not to be counted as given back by this one.
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
