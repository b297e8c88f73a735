using System.Diagnostics;
using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Authentication;
using System.Security.Cryptography.X509Certificates;
using System.Text;

namespace Whimbrel.Tool.Tests.Tls;

// The external side of a trust case. As client it sends a line and waits for a line; as server it waits for a line and
// responds.
internal abstract class TrustPeer : IAsyncDisposable
{
    public const string Line = "hello";

    // Connects, sends the line, and returns the received line (null if there was none) and the diagnostics of the peer.
    public abstract Task<(string? Answer, string Told)> ConnectAsync(TrustCase which, int port);

    // Serves one connection and sends its line back, unchanged or reversed.
    public abstract Task<int> ListenAsync(TrustCase which);

    public abstract ValueTask DisposeAsync();
}

internal sealed class SslStreamPeer : TrustPeer
{
    private readonly TcpListener _listener = new(IPAddress.Loopback, 0);
    private Task _serving = Task.CompletedTask;

    public override async Task<(string? Answer, string Told)> ConnectAsync(TrustCase which, int port)
    {
        using TcpClient socket = new();
        await socket.ConnectAsync(IPAddress.Loopback, port);
        await using SslStream stream = new(socket.GetStream());
        SslClientAuthenticationOptions options = new()
        {
            TargetHost = which.Host,
            CertificateChainPolicy = Policy(which),
            EnabledSslProtocols = which.PeerProtocols,
        };
        if (which.ClientApplications.Length > 0)
            options.ApplicationProtocols =
                [.. which.ClientApplications.Select(static a => new SslApplicationProtocol(a))];
        if (which.Client is { } name) options.ClientCertificateContext = ContextOf(name, which.Whole);
        try
        {
            await stream.AuthenticateAsClientAsync(options);
            await stream.WriteAsync(Encoding.ASCII.GetBytes(Line + "\n"));
            return (await new StreamReader(stream).ReadLineAsync(), "");
        }
        catch (Exception e) when (e is AuthenticationException or IOException)
        {
            return (null, $"{e.Message} {e.InnerException?.Message}");
        }
    }

    public override Task<int> ListenAsync(TrustCase which)
    {
        _listener.Start();
        _serving = ServeAsync(which);
        return Task.FromResult(((IPEndPoint)_listener.LocalEndpoint).Port);
    }

    public override async ValueTask DisposeAsync()
    {
        _listener.Stop();
        await _serving;
        _listener.Dispose();
    }

    private async Task ServeAsync(TrustCase which)
    {
        SslServerAuthenticationOptions options = new()
        {
            ServerCertificateContext = ContextOf(which.Server, which.Whole),
            ClientCertificateRequired = which.Asks != TlsClientCertificates.Off,
            CertificateChainPolicy = Policy(which),
            EnabledSslProtocols = which.PeerProtocols,
        };
        if (which.Asks == TlsClientCertificates.Requested)
            options.RemoteCertificateValidationCallback = static (_, certificate, _, errors) => certificate is null
                || errors == SslPolicyErrors.None;
        if (which.ServerApplications.Length > 0)
            options.ApplicationProtocols =
                [.. which.ServerApplications.Select(static a => new SslApplicationProtocol(a))];
        try
        {
            using TcpClient socket = await _listener.AcceptTcpClientAsync();
            await using SslStream stream = new(socket.GetStream());
            await stream.AuthenticateAsServerAsync(options);
            string? line = await new StreamReader(stream).ReadLineAsync();
            if (line is not null) await stream.WriteAsync(Encoding.ASCII.GetBytes(line + "\n"));
            await stream.ShutdownAsync();
        }
        catch (Exception e) when (e is AuthenticationException or IOException or SocketException
            or ObjectDisposedException or InvalidOperationException)
        {
            // Rejected by one of the sides, or no client connected: the case says which is expected.
        }
    }

    private static SslStreamCertificateContext ContextOf(string name, bool whole)
    {
        Identity identity = TrustMaterial.Get(name);
        // Built without searching for missing intermediates.
        return SslStreamCertificateContext.Create(identity.Certificate,
            whole ? new X509Certificate2Collection(identity.Issuers) : null, offline: true);
    }

    private static X509ChainPolicy Policy(TrustCase which)
    {
        X509ChainPolicy policy = new()
        {
            TrustMode = X509ChainTrustMode.CustomRootTrust,
            RevocationMode = X509RevocationMode.NoCheck,
            DisableCertificateDownloads = true
        };
        policy.CustomTrustStore.Add(TrustMaterial.Get(which.Roots).Certificate);
        return policy;
    }
}

internal sealed class OpenSslPeer : TrustPeer
{
    private readonly TemporaryFolder _folder = new();
    private Process? _process;

    public override async Task<(string? Answer, string Told)> ConnectAsync(TrustCase which, int port)
    {
        List<string> arguments = ["s_client", "-quiet", "-connect", $"127.0.0.1:{port}", "-verify_return_error",
            "-CAfile", TrustMaterial.Get(which.Roots).Write(_folder, "ca.pem")];
        bool isAddress = IPAddress.TryParse(which.Host, out _);
        arguments.AddRange(isAddress
            ? ["-noservername", "-verify_ip", which.Host]
            : ["-servername", which.Host, "-verify_hostname", which.Host]);
        if (which.Client is { } name) AddIdentity(arguments, name, which.Whole);
        if (which.ClientApplications.Length > 0)
            arguments.AddRange(["-alpn", string.Join(',', which.ClientApplications)]);
        AddVersion(arguments, which.PeerProtocols);
        _process = OtherProgram.Start("openssl", [.. arguments]);
        Task<string> errors = _process.StandardError.ReadToEndAsync();
        await _process.StandardInput.WriteAsync(Line + "\n");
        await _process.StandardInput.FlushAsync();
        string? answer = await Deadline.Within(
            async cancellation => await _process.StandardOutput.ReadLineAsync(cancellation), () => "openssl s_client");
        _process.Kill();
        return (answer, await errors);
    }

    public override async Task<int> ListenAsync(TrustCase which)
    {
        List<string> arguments = ["s_server", "-accept", "127.0.0.1:0", "-naccept", "1", "-rev"];
        AddIdentity(arguments, which.Server, which.Whole);
        if (which.Asks != TlsClientCertificates.Off)
            arguments.AddRange([which.Asks == TlsClientCertificates.Required ? "-Verify" : "-verify", "3",
                "-verify_return_error", "-CAfile", TrustMaterial.Get(which.Roots).Write(_folder, "ca.pem")]);
        if (which.ServerApplications.Length > 0)
            arguments.AddRange(["-alpn", string.Join(',', which.ServerApplications)]);
        AddVersion(arguments, which.PeerProtocols);
        _process = OtherProgram.Start("openssl", [.. arguments]);
        _ = _process.StandardError.ReadToEndAsync();
        Lines lines = new(_process.StandardOutput, "openssl s_server");
        string accepting = await lines.ThatContains("ACCEPT");
        _ = lines.ToEndAsync();
        return int.Parse(accepting[(accepting.LastIndexOf(':') + 1)..],
            System.Globalization.CultureInfo.InvariantCulture);
    }

    public override async ValueTask DisposeAsync()
    {
        if (_process is not null)
        {
            if (!_process.HasExited) _process.Kill();
            await _process.WaitForExitAsync();
            _process.Dispose();
        }

        _folder.Dispose();
    }

    private static void AddVersion(List<string> arguments, SslProtocols protocols)
    {
#pragma warning disable CA5397, SYSLIB0039, CA5398 // obsolete versions are enabled to test that they are rejected
        switch (protocols)
        {
            case SslProtocols.Tls11: arguments.AddRange(["-tls1_1", "-cipher", "DEFAULT:@SECLEVEL=0"]); break;
            case SslProtocols.Tls12: arguments.Add("-tls1_2"); break;
            case SslProtocols.Tls13: arguments.Add("-tls1_3"); break;
            default: break;
        }
#pragma warning restore CA5397, SYSLIB0039, CA5398
    }

    private void AddIdentity(List<string> arguments, string name, bool whole)
    {
        Identity identity = TrustMaterial.Get(name);
        arguments.AddRange(["-cert", identity.Write(_folder, "own.pem"), "-key",
            identity.WriteKey(_folder, "own.key")]);
        if (whole && identity.Issuers.Length > 0)
            arguments.AddRange(["-cert_chain", identity.WriteIssuers(_folder, "chain.pem")]);
    }
}
