using System.Net.Sockets;
using System.Runtime.CompilerServices;

namespace Whimbrel.Compat.Tests.Connections;

// What the process remembers of connections that have ended.
public sealed class BudgetMemoryTests
{
    [Fact] // more than the bytes that are free, so that the connections count in the budget
    public void A_connection_that_had_much_to_send_is_released_after_its_end()
    {
        const int Clients = 5;
        List<WeakReference> ended = Use(Clients);
        Log.Until(() =>
        {
            GC.Collect();
            return ended.Count(static r => r.IsAlive) <= 1; // a thread of the pool may still hold the last one
        }, "the sessions to be released");
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static List<WeakReference> Use(int clients)
    {
        Log log = new();
        List<WeakReference> sessions = [];
        using RecordingServer server = new(log);
        RecordingSession? last = null;
        server.Make = s =>
        {
            last = new RecordingSession(s);
            sessions.Add(new WeakReference(last));
            return last;
        };
        Assert.True(server.Start());
        for (int i = 1; i <= clients; i++)
        {
            using Socket peer = Cost.Connect(server.Chosen);
            log.Until("server: connected", i);
            for (int sent = 0; sent < 256; sent++) Assert.True(last!.SendAsync(new byte[64 * 1024]));
            Log.Until(() => last!.BytesSent > 0, "the first bytes");
            Cost.Read(peer, new byte[256 * 64 * 1024]);
            Log.Until(() => last!.BytesPending == 0, "an empty queue");
            Assert.True(last!.SendAsync("x"));
            peer.Close();
            log.Until("server: disconnected", i);
        }

        Assert.True(server.Stop());
        return sessions;
    }
}
