using System.Globalization;
using System.Net;
using System.Net.Sockets;
using Whimbrel.Linux;

namespace Whimbrel.Conformance;

/// <summary>Memory that a burst needed is returned to the system afterwards.</summary>
[Trait("Runs", "alone")]
public sealed class NativeMemoryTests
{
    private const int Clients = 48;
    private const int Each = 4 * 1024 * 1024;

    [Fact]
    public async Task Memory_of_clients_that_did_not_read_goes_back_to_the_system_within_seconds()
    {
        Assert.SkipUnless(KernelProbe.HasEpoll, "The resident memory of a process is read from /proc.");
        CancellationToken stop = TestContext.Current.CancellationToken;
        await using Engine engine = new(new EngineOptions { Loops = 1 });
        Server server = new(new ServerOptions
        {
            Engine = engine,
            Address = "tcp://127.0.0.1:0",
            Limits = new() { SendBytes = Each, SlowConsumer = SlowConsumer.Wait }
        }, static () => new Filler());
        await server.StartAsync();
        long before = ResidentBytes();
        List<Socket> clients = [];
        for (int i = 0; i < Clients; i++)
        {
            Socket client = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
            await client.ConnectAsync(server.EndPoint!, stop);
            clients.Add(client);
        }

        Loop loop = engine.GetLoop(0);
        await Until(() => loop.BytesPending > Clients * (Each * 3L / 4), stop);
        Assert.InRange(loop.Blocks.HeldBytes, Clients * (Each * 3L / 4), long.MaxValue);
        Assert.InRange(ResidentBytes() - before, Clients * (Each / 2L), long.MaxValue);
        foreach (Socket client in clients) client.Close(0);
        await Until(() => loop.ReadCounters().Connections == 0, stop);
        await Until(() => loop.Blocks.HeldBytes < 2 * 1024 * 1024, stop);
        Assert.SkipUnless(ResidentBytes() - before < Clients * (Each / 2L)
            || File.Exists("/lib/x86_64-linux-gnu/libc.so.6"), "Only glibc gives freed memory back on request.");
        await Until(() => ResidentBytes() - before < Clients * (Each / 6L), stop);
        await server.StopAsync();
    }

    private static async Task Until(Func<bool> condition, CancellationToken stop)
    {
        DateTime deadline = DateTime.UtcNow.AddSeconds(60);
        while (!condition())
        {
            Assert.True(DateTime.UtcNow < deadline, "it did not happen within a minute");
            // tidy: waits because the memory of a process changes without an event.
            await Task.Delay(20, stop);
        }
    }

    private static long ResidentBytes()
    {
        string line = File.ReadLines("/proc/self/status")
            .First(static l => l.StartsWith("VmRSS:", StringComparison.Ordinal));
        return 1024 * long.Parse(line["VmRSS:".Length..^"kB".Length], NumberStyles.Integer
            | NumberStyles.AllowLeadingWhite | NumberStyles.AllowTrailingWhite, CultureInfo.InvariantCulture);
    }

    private sealed class Filler : Session
    {
        private static readonly byte[] s_piece = new byte[32 * 1024];

        protected override void OnConnected()
        {
            while (Send(s_piece) == SendResult.Queued)
            {
            }
        }
    }
}
