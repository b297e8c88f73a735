using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using Whimbrel.Conformance;
using Whimbrel.Http.Tests.Programs;

namespace Whimbrel.Acme.Tests;

/// <summary>
/// The authority of the tests: Debian's pebble, which rejects one nonce in twenty and reuses half of the
/// authorizations, and its DNS server, which resolves each name to 127.0.0.1.
/// </summary>
internal sealed class Pebble : IAsyncDisposable
{
    private readonly RealProgram _dns;
    private readonly int _dnsPort;
    private readonly string _settings;
    private RealProgram? _authority;
    private bool _isDisposed;

    private Pebble(RealProgram dns, int dnsPort, string settings)
    {
        _dns = dns;
        _dnsPort = dnsPort;
        _settings = settings;
    }

    internal int Port { get; } = RealProgram.FreePort();

    /// <summary>Port at which it validates HTTP-01.</summary>
    internal int HttpPort { get; } = RealProgram.FreePort();

    /// <summary>Port at which it validates TLS-ALPN-01.</summary>
    internal int TlsPort { get; } = RealProgram.FreePort();

    internal string Directory => $"https://localhost:{Port}/dir";

    internal string Output => _authority?.Output ?? "";

    /// <summary>Starts it.</summary>
    /// <param name="settings">More members of the configuration, each with a comma before it.</param>
    internal static async Task<Pebble> StartAsync(string settings = "")
    {
        RealProgram.Find("pebble");
        int dnsPort = RealProgram.FreePort(), managementPort = RealProgram.FreePort();
        RealProgram dns = await RealProgram.ServeAsync("pebble-challtestsrv", dnsPort, _ => ["-http01", "",
            "-https01", "", "-tlsalpn01", "", "-dns01", $"127.0.0.1:{dnsPort}", "-management",
            $"127.0.0.1:{managementPort}", "-defaultIPv6", ""]);
        Pebble pebble = new(dns, dnsPort, settings);
        await pebble.ServeAsync();
        return pebble;
    }

    /// <summary>Starts it again at the same port: it has forgotten all accounts, orders and its own keys.</summary>
    internal async Task RestartAsync()
    {
        _authority?.Dispose();
        await ServeAsync();
    }

    private async Task ServeAsync()
    {
        string pebble = RealProgram.Find("pebble");
        _authority = await RealProgram.ServeAsync("env", Port, directory =>
        {
            string file = Path.Combine(directory, "pebble.json"), certificate = Path.Combine(directory, "server.pem"),
                key = Path.Combine(directory, "server.key");
            File.WriteAllText(certificate, TestCertificates.Server.ExportCertificatePem());
            using ECDsa secret = TestCertificates.Server.GetECDsaPrivateKey()!;
            File.WriteAllText(key, secret.ExportPkcs8PrivateKeyPem());
            File.WriteAllText(file, $$"""
                { "pebble": { "listenAddress": "127.0.0.1:{{Port}}", "managementListenAddress": "",
                  "certificate": "{{certificate}}", "privateKey": "{{key}}",
                  "httpPort": {{HttpPort}}, "tlsPort": {{TlsPort}}{{_settings}} } }
                """);
            return ["PEBBLE_VA_NOSLEEP=1", pebble, "-config", file, "-dnsserver", $"127.0.0.1:{_dnsPort}"];
        });
    }

    public ValueTask DisposeAsync()
    {
        _authority?.Dispose();
        _authority = null;
        if (!_isDisposed) _dns.Dispose();
        _isDisposed = true;
        return default;
    }
}
