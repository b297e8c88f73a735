using Whimbrel.Conformance;
using Whimbrel.Tls;

namespace Whimbrel.Tests.Tls;

/// <summary>Memory that the direct OpenSSL provider allocates with malloc. Counts the whole process; test classes run
/// one at a time.</summary>
public sealed class OpenSslMemoryTests
{
    [Fact]
    public void Thousands_of_complete_and_broken_connections_leak_no_memory()
    {
        OpenSslProfile server = OpenSslRig.Prepare(TestCertificates.ServerOptions, true);
        OpenSslProfile client = OpenSslRig.Prepare(TestCertificates.ClientOptions, false);
        // Most connections end early, at each possible point of a handshake, where leaks are likely. The framework uses
        // malloc as well and frees at any time; but a leak per connection shows in every series: the smallest leak, per
        // window, would be 32,000 bytes.
        Turn(server, client, 500);
        List<long> grown = [];
        while (grown.Count < 10 && grown.Count(static g => g < 20_000) < 2)
        {
            long before = OpenSslEcho.NativeBytes();
            Turn(server, client, 500);
            grown.Add(OpenSslEcho.NativeBytes() - before);
        }

        Assert.True(grown.Count(static g => g < 20_000) >= 2,
            $"bytes more in use by malloc, for each series of 500: {string.Join(", ", grown)}");
    }

    private static void Turn(OpenSslProfile server, OpenSslProfile client, int count)
    {
        for (int i = 0; i < count; i++)
        {
            using OpenSslEcho echo = new(server, client, steps: i % 10 == 9 ? int.MaxValue : i % 3);
        }
    }

    [Fact]
    public void An_idle_connection_takes_no_more_than_20_KiB()
    {
        OpenSslProfile server = OpenSslRig.Prepare(TestCertificates.ServerOptions, true),
            client = OpenSslRig.Prepare(TestCertificates.ClientOptions, false);
        // Both ends are in this process, and each is one connection. The runtime allocates with malloc as well (its
        // compiler does so in a thread of its own), which adds to a series and takes nothing from what a connection
        // needs: the smallest of up to five series counts.
        List<long> each = [];
        while (each.Count < 5 && (each.Count == 0 || each[^1] > 20 * 1024)) each.Add(NativeBytesOfEach());
        TestContext.Current.TestOutputHelper!.WriteLine($"bytes of native memory for each: {string.Join(", ", each)}");
        Assert.InRange(each.Min(), 1000, 20 * 1024);

        long NativeBytesOfEach()
        {
            List<OpenSslEcho> all = [];
            for (int i = 0; i < 20; i++) all.Add(Used());
            long before = OpenSslEcho.NativeBytes();
            for (int i = 0; i < 200; i++) all.Add(Used());
            long bytes = (OpenSslEcho.NativeBytes() - before) / 400;
            foreach (OpenSslEcho echo in all) echo.Dispose();
            return bytes;
        }

        OpenSslEcho Used()
        {
            OpenSslEcho echo = new(server, client);
            echo.PingPong(16_000);
            return echo;
        }
    }
}
