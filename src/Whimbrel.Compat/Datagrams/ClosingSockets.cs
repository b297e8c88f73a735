using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Compat.Datagrams;

/// <summary>
/// Sockets of this process that are being closed. A call that closes a socket seldom waits for it, because each wait
/// needs a turn of the loop. A hundred clients of a group that waited one after the other took seconds on a busy
/// machine.
/// </summary>
internal static class ClosingSockets
{
    private static readonly Lock s_gate = new();
    private static readonly List<Task> s_closing = [];

    /// <summary>Returns whether the caller waits until the socket is closed: if datagrams are queued, because the
    /// process may end now, or if the port is not shared, because other sockets may want it.</summary>
    internal static bool IsAwaited(DatagramSocket socket) => socket.BytesPending > 0
        || socket.Options is { ReuseAddress: false, EndPoint: IPEndPoint { Port: not 0 } };

    internal static void Add(Task closing)
    {
        lock (s_gate)
        {
            s_closing.RemoveAll(static ended => ended.IsCompleted);
            s_closing.Add(closing);
        }
    }

    /// <summary>Starts a socket. If its port is taken, tries again when all other sockets have closed.</summary>
    /// <exception cref="NetworkException">The address cannot be bound.</exception>
    internal static async ValueTask StartAsync(DatagramSocket socket)
    {
        Task[] closing;
        lock (s_gate) closing = [.. s_closing]; // before the attempt: one may end during it
        try
        {
            await socket.StartAsync().ConfigureAwait(false);
            return;
        }
        catch (NetworkException e)
            when (closing.Length > 0 && e.Error.SocketError == SocketError.AddressAlreadyInUse)
        {
            // Tried again below.
        }

        await Task.WhenAny(Task.WhenAll(closing)).ConfigureAwait(false); // their results do not matter
        await socket.StartAsync().ConfigureAwait(false);
    }
}
