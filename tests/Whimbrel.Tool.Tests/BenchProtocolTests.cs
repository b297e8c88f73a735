using static Whimbrel.Tool.Tests.Harness;

namespace Whimbrel.Tool.Tests;

/// <summary>
/// The benchmark harness works with the servers of TLS, HTTP, WebSocket and relays, and with HTTP clients.
/// </summary>
/// <remarks>Quiet, because a load program without CPU time in its short window measures nothing.</remarks>
[Trait("Runs", "quiet")]
public sealed class BenchProtocolTests
{
    [Theory]
    [InlineData("whimbrel-tls-portable")]
    [InlineData("whimbrel-tls-openssl")]
    public async Task Every_byte_of_a_short_benchmark_over_TLS_is_right(string peer)
    {
        if (peer.Contains("-openssl", StringComparison.Ordinal)) await Tls.TrustTests.NeedsAsync(TlsProvider.OpenSsl);
        Assert.SkipUnless(File.Exists("/usr/include/openssl/ssl.h"),
            "The load program needs the headers of OpenSSL (libssl-dev).");
        OtherProgram.Needs("openssl");
        (int exitCode, string output) = await BenchAsync("tls", "--smoke", "--peers", peer, "--no-build");
        Assert.True(exitCode == 0, output);
        Assert.DoesNotContain("FAILED", output, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("whimbrel-web-epoll")]
    [InlineData("whimbrel-web-uring")]
    public async Task Every_byte_of_a_short_benchmark_of_HTTP_and_WebSocket_is_right(string peer)
    {
        bool isDeep = Depth.IsDeep;
        if (peer.Contains("uring", StringComparison.Ordinal)) NeedsUring();
        Assert.SkipUnless(isDeep || peer == "whimbrel-web-epoll", "Other engines are measured with --deep.");
        Assert.SkipUnless(File.Exists("/usr/include/openssl/ssl.h"),
            "The load program needs the headers of OpenSSL (libssl-dev).");
        OtherProgram.Needs("openssl");
        // Each mode of the load program once, and all rows in deep runs.
        string[] scenarios = isDeep ? ["web"] : ["http-pipelined-100", "https-resumed", "http-up-1g", "ws-64k",
            "ws-oneway-64k", "ws-stream-64k", "ws-room-100", "ws-open", "ws-idle", "ws-beat-10000"];
        (int exitCode, string output) = await BenchAsync([.. scenarios, "--smoke", "--seconds", "0.1", "--peers", peer,
            "--no-build"]);
        Assert.True(exitCode == 0, output);
        Assert.DoesNotContain("FAILED", output, StringComparison.Ordinal);
    }

    // Includes the echo server in C, which has rows of its own.
    [Fact]
    public async Task Every_byte_of_a_short_benchmark_of_compressed_messages_is_right()
    {
        (int exitCode, string output) = await BenchAsync("ws-deflate", "ws-deflate-context", "ws-64k", "--smoke",
            "--seconds", "0.1", "--peers", "c-ws,whimbrel-web-epoll", "--no-build");
        Assert.SkipWhen(exitCode == 2 && output.Contains("apt-get install", StringComparison.Ordinal), output);
        Assert.True(exitCode == 0, output);
        Assert.DoesNotContain("FAILED", output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Every_byte_of_a_short_benchmark_through_a_relay_is_right()
    {
        (int exitCode, string output) = await BenchAsync("relay", "--smoke", "--seconds", "0.4", "--peers",
            "c-relay,whimbrel-relay-epoll", "--no-build");
        Assert.True(exitCode == 0, output);
        Assert.DoesNotContain("FAILED", output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Every_byte_of_a_short_benchmark_over_a_Unix_socket_is_right()
    {
        (int exitCode, string output) = await BenchAsync("unix", "--smoke", "--seconds", "0.1", "--peers",
            "c-epoll,whimbrel-epoll,whimbrel-uring", "--no-build");
        Assert.True(exitCode == 0, output);
        Assert.Contains("unix-bulk-100", output, StringComparison.Ordinal);
        Assert.DoesNotContain("FAILED", output, StringComparison.Ordinal);
    }

    // Each form of request on one of the engines, and the client it is compared with.
    [Fact]
    public async Task Every_byte_of_a_short_benchmark_of_HTTP_clients_is_right()
    {
        NeedsUring();
        string[] clients = ["httpclient", "whimbrel-handler-epoll", "whimbrel-pool-uring", "whimbrel-session-epoll"];
        (int exitCode, string output) = await BenchInAsync(Root, "client", "--clients", string.Join(',', clients),
            "--rounds", "1", "--connections", "4", "--seconds", "0.2", "--warmup", "0.2", "--no-build");
        Assert.True(exitCode == 0, output);
        Assert.DoesNotContain("FAILED", output, StringComparison.Ordinal);
        string[] lines = output.Split('\n');
        Assert.All(clients, client => Assert.Matches(client + @" +\d+\.\d k +\d+\.\d\d +\d+\.\d\d +\d+ +\d\.\d\d \[",
            Assert.Single(lines, line => line.StartsWith(client + " ", StringComparison.Ordinal))));
        (exitCode, output) = await BenchInAsync(Root, "client", "--clients", "nobody");
        Assert.Equal((2, true), (exitCode, output.Contains("no such client: nobody", StringComparison.Ordinal)));
    }
}
