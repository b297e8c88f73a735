using Whimbrel.Conformance;
using Whimbrel.Tls;

namespace Whimbrel.Tests.Tls;

/// <summary>What the direct OpenSSL layer takes from malloc. The whole process is counted; test classes run one after the other.</summary>
public sealed class OpenSslMemoryTests
{
    [Fact]
    public void Three_thousand_connections_whole_and_broken_leave_no_memory_behind()
    {
        OpenSslProfile server = OpenSslRig.Prepare(TestCertificates.ServerOptions, true);
        OpenSslProfile client = OpenSslRig.Prepare(TestCertificates.ClientOptions, false);
        // Most of them end early, at each point where a handshake can: that is where things are forgotten.
        Turn(server, client, 500);
        long before = OpenSslEcho.NativeBytes();
        Turn(server, client, 3_000);
        long grown = OpenSslEcho.NativeBytes() - before;
        // A window forgotten each time would be 200 KB, anything of OpenSSL's more.
        Assert.True(grown < 150_000, $"{grown} bytes more in use by malloc");
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
        OpenSslProfile server = OpenSslRig.Prepare(TestCertificates.ServerOptions, true), client = OpenSslRig.Prepare(TestCertificates.ClientOptions, false);
        List<OpenSslEcho> all = [];
        for (int i = 0; i < 20; i++) all.Add(Used());
        long before = OpenSslEcho.NativeBytes();
        for (int i = 0; i < 200; i++) all.Add(Used());
        // Both ends are here, and each is one connection.
        long each = (OpenSslEcho.NativeBytes() - before) / 400;
        foreach (OpenSslEcho echo in all) echo.Dispose();
        TestContext.Current.TestOutputHelper!.WriteLine($"{each} bytes of native memory for each");
        Assert.InRange(each, 1000, 20 * 1024);

        OpenSslEcho Used()
        {
            OpenSslEcho echo = new(server, client);
            echo.PingPong(16_000);
            return echo;
        }
    }
}
