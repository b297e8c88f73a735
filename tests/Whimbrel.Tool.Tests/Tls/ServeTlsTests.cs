using System.Diagnostics;
using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Authentication;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using System.Text.RegularExpressions;

namespace Whimbrel.Tool.Tests.Tls;

/// <summary>The tool's servers and its client over TLS: with each other, with OpenSSL's programs and with .NET's
/// SslStream.</summary>
public sealed partial class ServeTlsTests : IDisposable
{
    private readonly TemporaryFolder _folder = new();

    public void Dispose() => _folder.Dispose();

    [Fact]
    public async Task Without_a_file_a_server_makes_its_own_certificate_and_says_how_to_connect()
    {
        await using var server = await RunningTool.Serve("echo", "--tls");
        string own = await server.Error.ThatContains("temporary certificate");
        Assert.Contains("for localhost, 127.0.0.1, ::1.", own, StringComparison.Ordinal);
        string fingerprint = Fingerprint().Match(own).Value;
        string pin = Pin()
            .Match(await server.Error.ThatContains("Talk to it: whimbrel connect --pin ")).Groups["pin"].Value;
        foreach (string hash in (string[])[pin, fingerprint, fingerprint.Replace(":", "", StringComparison.Ordinal)])
        {
            (int code, List<string> output, List<string> errors) = await RunningTool.Run("hello\n", "connect", "--pin",
                hash, $"tls://{server.Address}");
            Assert.Equal("hello", string.Join('\n', output));
            Assert.Equal(0, code);
            Assert.Contains(errors, static line => line.StartsWith("TLS 1.3, TLS_", StringComparison.Ordinal));
            Assert.Contains(errors, line => line.StartsWith("certificate of localhost, signed by whimbrel serve "
                + "--tls, until ", StringComparison.Ordinal) && line.Contains(fingerprint, StringComparison.Ordinal)
                && line.EndsWith($"key {pin}", StringComparison.Ordinal));
        }

        foreach (string wrong in (string[])["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", new string('0', 64)])
        {
            (int code, List<string> output, List<string> errors) = await RunningTool.Run("hello\n", "connect", "--pin",
                wrong, $"tls://{server.Address}");
            Assert.Equal(1, code);
            Assert.Empty(output);
            Assert.Contains("server certificate refused", errors[^1], StringComparison.Ordinal);
        }

        // Without --ca, the certificate is not trusted.
        (int last, _, List<string> told) = await RunningTool.Run("hello\n", "connect", "--tls", server.Address);
        Assert.Equal(1, last);
        Assert.Contains("server certificate refused", told[^1], StringComparison.Ordinal);
        Assert.Matches(@"handshakes of which \d+ resumed, \d+ failed$", await server.StopAsync());
    }

    [Fact]
    public async Task Certificates_of_the_tool_serve_and_are_trusted_on_both_sides()
    {
        await MakeAsync("--san", "localhost,127.0.0.1", "--client", "anna");
        await using var server = await RunningTool.Serve("chat", "--cert", _folder["server.pem"], "--key",
            _folder["server.key"], "--client-ca", _folder["ca.pem"], "--alpn", "chat/2,chat/1");
        string[] connect =
            ["connect", "--ca", _folder["ca.pem"], $"tls://localhost:{((IPEndPoint)server.EndPoint).Port}"];
        (int code, List<string> output, List<string> errors) = await RunningTool.Run("/quit\n",
            [.. connect, "--cert", _folder["anna.pem"], "--key", _folder["anna.key"], "--alpn", "chat/1"]);
        Assert.Contains("goodbye.", string.Join('\n', output), StringComparison.Ordinal);
        Assert.Equal(0, code);
        Assert.Contains(errors,
            static line => line.Contains(", application protocol chat/1, by ", StringComparison.Ordinal));

        // A client without a certificate, and a client without the CA, are rejected.
        Assert.Equal(1, (await RunningTool.Run("/quit\n", connect)).ExitCode);
        Assert.Equal(1, (await RunningTool.Run("/quit\n", "connect", $"tls://{server.Address}")).ExitCode);
    }

    [Fact]
    public async Task A_bundle_with_a_password_serves_at_a_tls_address()
    {
        await MakeAsync("--password", "secret");
        await File.WriteAllTextAsync(_folder["password"], "secret\n", TestContext.Current.CancellationToken);
        await using var server = await RunningTool.Serve("echo", "--listen", "tls://127.0.0.1:0", "--pfx",
            _folder["server.pfx"], "--password-file", _folder["password"]);
        (int code, List<string> output, _) = await RunningTool.Run("hello\n", "connect", "--ca", _folder["ca.pem"],
            $"tls://{server.Address}");
        Assert.Equal("hello", string.Join('\n', output));
        Assert.Equal(0, code);
    }

    [Fact]
    public async Task TLS_goes_over_a_Unix_path_when_the_server_is_named()
    {
        await MakeAsync();
        await using var server = await RunningTool.Serve("echo", "--unix", _folder["s"], "--cert",
            _folder["server.pem"], "--key", _folder["server.key"]);
        (int code, List<string> output, _) = await RunningTool.Run("hello\n", "connect", "--unix", _folder["s"], "--ca",
            _folder["ca.pem"], "--server-name", "localhost");
        Assert.Equal("hello", string.Join('\n', output));
        Assert.Equal(0, code);
        (code, _, List<string> errors) = await RunningTool.Run("hello\n", "connect", "--unix", _folder["s"], "--ca",
            _folder["ca.pem"]);
        Assert.Equal(1, code);
        Assert.Contains("a path has no name that a certificate could cover", string.Join('\n', errors),
            StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("-tls1_3", "TLSv1.3")]
    [InlineData("-tls1_2", "TLSv1.2")]
    public async Task OpenSSL_connects_resumes_and_gets_its_bytes_back(string version, string expected)
    {
        OtherProgram.Needs("openssl");
        await MakeAsync();
        await using var server = await RunningTool.Serve("echo", "--cert", _folder["server.pem"], "--key",
            _folder["server.key"]);
        string[] common = ["-connect", server.Address, "-servername", "localhost", "-verify_hostname", "localhost",
            "-CAfile", _folder["ca.pem"], "-verify_return_error", version];
        string first = await OpenSslTalkAsync("hello", [.. common, "-sess_out", _folder["session"]]);
        Assert.Contains("Verify return code: 0 (ok)", first, StringComparison.Ordinal);
        Assert.Contains($"New, {expected}", first, StringComparison.Ordinal);
        Assert.Contains("Compression: NONE", first, StringComparison.Ordinal);
        string second = await OpenSslTalkAsync("again", [.. common, "-sess_in", _folder["session"]]);
        Assert.Contains($"Reused, {expected}", second, StringComparison.Ordinal);
        Assert.EndsWith(", 2 handshakes of which 1 resumed, 0 failed", await server.StopAsync(),
            StringComparison.Ordinal);
    }

    [Fact]
    public async Task The_tool_connects_to_OpenSSL()
    {
        OtherProgram.Needs("openssl");
        await MakeAsync();
        using Process server = OtherProgram.Start("openssl", "s_server", "-accept", "127.0.0.1:0", "-naccept", "1",
            "-rev", "-cert", _folder["server.pem"], "-key", _folder["server.key"]);
        try
        {
            Lines lines = new(server.StandardOutput, "openssl s_server");
            string accepting = await lines.ThatContains("ACCEPT");
            await using var client = RunningTool.Start("connect", "--ca", _folder["ca.pem"],
                $"tls://{accepting["ACCEPT ".Length..]}");
            await client.Input.WriteAsync("hello\n");
            await client.Input.FlushAsync(TestContext.Current.CancellationToken);
            Assert.Equal("olleh", await client.Out.NextAsync());
            await client.SignalAsync("TERM");
            Assert.Equal(0, await client.ExitCodeAsync());
        }
        finally
        {
            if (!server.HasExited) server.Kill();
        }
    }

    [Fact]
    public async Task SslStream_gets_a_million_bytes_back()
    {
        await MakeAsync();
        await using var server = await RunningTool.Serve("echo", "--cert", _folder["server.pem"], "--key",
            _folder["server.key"]);
        using TcpClient socket = new();
        await socket.ConnectAsync((IPEndPoint)server.EndPoint, TestContext.Current.CancellationToken);
        await using SslStream stream = new(socket.GetStream());
        X509ChainPolicy policy =
            new() { TrustMode = X509ChainTrustMode.CustomRootTrust, RevocationMode = X509RevocationMode.NoCheck };
        policy.CustomTrustStore.Add(X509CertificateLoader.LoadCertificateFromFile(_folder["ca.pem"]));
        await stream.AuthenticateAsClientAsync(
            new SslClientAuthenticationOptions { TargetHost = "localhost", CertificateChainPolicy = policy },
            TestContext.Current.CancellationToken);
        Assert.Equal(SslProtocols.Tls13, stream.SslProtocol);
        byte[] sent = new byte[1_000_000], got = new byte[sent.Length];
        new Random(1).NextBytes(sent);
        Task sending = stream.WriteAsync(sent, TestContext.Current.CancellationToken).AsTask();
        await Deadline.Within(
            async cancellation =>
            {
                await stream.ReadExactlyAsync(got, cancellation);
                await sending;
                return 0;
            },
            () => "the echo");
        Assert.Equal(sent, got);
        await stream.ShutdownAsync();
        Assert.Equal(0, await stream.ReadAsync(got, TestContext.Current.CancellationToken));
        Assert.Contains("1000000 bytes in, 1000000 bytes out", await server.StopAsync(), StringComparison.Ordinal);
    }

    [Fact]
    public async Task The_tool_connects_to_SslStream()
    {
        await MakeAsync();
        TcpListener listener = new(IPAddress.Loopback, 0);
        listener.Start();
        await using var client = RunningTool.Start("connect", "--ca", _folder["ca.pem"],
            $"tls://localhost:{((IPEndPoint)listener.LocalEndpoint).Port}");
        await client.Input.WriteAsync("hello\n");
        await client.Input.FlushAsync(TestContext.Current.CancellationToken);
        using TcpClient socket = await listener.AcceptTcpClientAsync(TestContext.Current.CancellationToken);
        await using SslStream stream = new(socket.GetStream());
        using X509Certificate2 certificate = X509CertificateLoader.LoadPkcs12FromFile(_folder["server.pfx"], null);
        await stream.AuthenticateAsServerAsync(certificate);
        Lines lines = new(new StreamReader(stream), "the tool over TLS");
        Assert.Equal("hello", await lines.NextAsync());
        await stream.WriteAsync("and back\n"u8.ToArray(), TestContext.Current.CancellationToken);
        Assert.Equal("and back", await client.Out.NextAsync());
        client.Input.Close();
        Assert.Null(await lines.NextAsync()); // close_notify: a truncation would throw
        await stream.ShutdownAsync();
        Assert.Equal(0, await client.ExitCodeAsync());
        listener.Dispose();
    }

    [Theory]
    [InlineData("portable")]
    [InlineData("openssl")]
    public async Task Sslscan_finds_no_obsolete_version_and_no_weak_cipher(string layer)
    {
        OtherProgram.Needs("sslscan");
        if (layer == "openssl") await TrustTests.NeedsAsync(TlsProvider.OpenSsl);
        await MakeAsync();
        await using var server = await RunningTool.ServeBy(layer, "echo", "--cert", _folder["server.pem"], "--key",
            _folder["server.key"]);
        (int code, string report) = await OtherProgram.RunAsync("sslscan", "--no-colour", "--show-certificate",
            server.Address);
        Assert.Equal(0, code);
        foreach (string old in (string[])["SSLv2", "SSLv3", "TLSv1.0", "TLSv1.1"])
            Assert.Matches($@"(?m)^{Regex.Escape(old)} +disabled", report);
        foreach (string current in (string[])["TLSv1.2", "TLSv1.3"])
            Assert.Matches($@"(?m)^{Regex.Escape(current)} +enabled", report);
        Assert.DoesNotContain("Insecure session renegotiation supported", report, StringComparison.Ordinal);
        Assert.DoesNotContain("vulnerable to heartbleed",
            report.Replace("not vulnerable to heartbleed", "", StringComparison.Ordinal), StringComparison.Ordinal);
        string[] offers = [.. report.Split('\n').Where(static line => AcceptedCipher().IsMatch(line))];
        Assert.NotEmpty(offers);
        foreach (string offer in offers)
        {
            Assert.Matches(" (128|256) bits ", offer);
            Assert.DoesNotMatch("RC4|DES|NULL|EXP|MD5|anon|ADH|AECDH", offer);
        }

        Assert.Matches("(?m)^TLSv1.3 +128 bits +secp256r1", report);
        Assert.DoesNotMatch(@"(?m)^TLSv1\.\d +(\d\d) bits +", report);
        Assert.Contains("localhost", report, StringComparison.Ordinal);
    }

    [Fact]
    public async Task OpenSSL_cannot_renegotiate()
    {
        OtherProgram.Needs("openssl");
        await MakeAsync();
        await using var server = await RunningTool.Serve("echo", "--cert", _folder["server.pem"], "--key",
            _folder["server.key"]);
        using Process client = OtherProgram.Start("openssl", "s_client", "-connect", server.Address, "-CAfile",
            _folder["ca.pem"], "-tls1_2");
        Task<string> errors = client.StandardError.ReadToEndAsync(TestContext.Current.CancellationToken);
        Lines lines = new(client.StandardOutput, "openssl s_client");
        await client.StandardInput.WriteAsync("hello\n");
        await client.StandardInput.FlushAsync(TestContext.Current.CancellationToken);
        await lines.ThatContains("hello");
        await client.StandardInput.WriteAsync("R\n");
        await client.StandardInput.FlushAsync(TestContext.Current.CancellationToken);
        await lines.ToEndAsync();
        Assert.Matches("no renegotiation|handshake failure|unexpected eof|alert", await errors);
        await Deadline.Within(
            async cancellation =>
            {
                await client.WaitForExitAsync(cancellation);
                return 0;
            },
            () => "the end of s_client");
    }

    [Theory]
    [InlineData("Give --pfx, or --cert and --key.", "serve", "echo", "--pfx", "a", "--cert", "b")]
    [InlineData("--key is the key of a --cert, which is missing.", "serve", "echo", "--key", "a")]
    [InlineData("--pin takes SHA-256 as 64 hexadecimal digits", "connect", "--pin", "abc", "tls://localhost:1")]
    [InlineData("Give --ca or --pin, not both: a pin identifies the certificate completely.", "connect", "--pin",
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "--ca", "x", "tls://localhost:1")]
    [InlineData("There is no --insecure: name trusted authorities by --ca FILE, or a certificate by --pin HASH.",
        "connect", "--insecure", "tls://localhost:1")]
    [InlineData("TLS for datagrams is not supported.", "connect", "--tls", "udp://localhost:1")]
    [InlineData("--server-name takes a name or an IP address, not '*.example.org'.", "connect", "--server-name",
        "*.example.org", "tls://localhost:1")]
    public async Task Wrong_arguments_give_one_line_that_says_what_is_right(string expected, params string[] arguments)
    {
        (int code, _, List<string> errors) = await RunningTool.Run(null, arguments);
        Assert.Equal(2, code);
        Assert.Contains(expected, Assert.Single(errors), StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("none.pem", null, "none.pem")]
    [InlineData("server.pem", null, "key")]
    [InlineData("server.pem", "client.key", "server.pem cannot be loaded")]
    public async Task A_certificate_that_cannot_be_used_is_reported_at_the_start(string file, string? keyFile,
        string expected)
    {
        await MakeAsync();
        string[] key = keyFile is not null ? ["--key", _folder[keyFile]] : [];
        (int code, List<string> output, List<string> errors) = await RunningTool.Run(null,
            ["serve", "echo", "--port", "0", "--cert", _folder[file], .. key]);
        Assert.Equal(1, code);
        Assert.Empty(output);
        Assert.Contains(expected, string.Join('\n', errors), StringComparison.Ordinal);
        Assert.DoesNotContain(errors, static line => line.StartsWith("   at ", StringComparison.Ordinal));
    }

    // Sends a line to a server with s_client, waits for the echo, and returns the output of s_client.
    private static async Task<string> OpenSslTalkAsync(string line, string[] arguments)
    {
        using Process client = OtherProgram.Start("openssl", ["s_client", .. arguments]);
        Task<string> errors = client.StandardError.ReadToEndAsync(TestContext.Current.CancellationToken);
        await client.StandardInput.WriteAsync(line + "\n");
        await client.StandardInput.FlushAsync(TestContext.Current.CancellationToken);
        StringBuilder all = new();
        Lines lines = new(client.StandardOutput, "openssl s_client");
        while (await lines.NextAsync() is { } next)
        {
            all.AppendLine(next);
            if (next == line) client.StandardInput.Close();
        }

        return all.Append(await errors).ToString();
    }

    private async Task MakeAsync(params string[] arguments)
    {
        (int code, _, List<string> errors) = await RunningTool.Run(null,
            ["certs", "--out", _folder.Path, .. arguments]);
        Assert.True(code == 0, string.Join('\n', errors));
    }

    [GeneratedRegex("([0-9A-F]{2}:){31}[0-9A-F]{2}")]
    private static partial Regex Fingerprint();

    [GeneratedRegex("--pin (?<pin>\\S{44}) ")]
    private static partial Regex Pin();

    [GeneratedRegex(@"^(Preferred|Accepted) ")]
    private static partial Regex AcceptedCipher();
}
