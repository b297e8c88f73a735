using System.Collections.Concurrent;
using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Cryptography.X509Certificates;
using Whimbrel.Conformance;
using Whimbrel.Http.Tests.Programs;

namespace Whimbrel.Acme.Tests;

/// <summary>One node under test with its events. The folder may belong to several.</summary>
internal sealed class AcmeNode : IAsyncDisposable
{
    private readonly SemaphoreSlim _certificates = new(0), _events = new(0);

    internal AcmeNode(string directory, string folder, AcmeOptions? like = null)
    {
        like ??= new AcmeOptions { Names = ["one.test"] };
        Certificate = new AcmeCertificate(new AcmeOptions
        {
            Directory = directory,
            Names = like.Names,
            AcceptsTerms = true,
            Contact = "admin@one.test",
            Folder = like.Store is null ? folder : null,
            Store = like.Store,
            Roots = TestCertificates.Roots,
            ExternalAccount = like.ExternalAccount,
            Challenge = like.Challenge,
            HttpAddress = like.HttpAddress,
            SelfSignedUntilIssued = like.SelfSignedUntilIssued,
            SharesTickets = like.SharesTickets,
            OrderTimeout = like.OrderTimeout,
            LookEvery = TimeSpan.FromMilliseconds(200),
            RetryAfter = like.RetryAfter == TimeSpan.FromMinutes(2) ? TimeSpan.FromMilliseconds(300) : like.RetryAfter,
            RetryAtMost = like.RetryAtMost,
            RequestTimeout = like.RequestTimeout,
            OnDiagnosticEvent = e =>
            {
                Events.Enqueue(e.Message);
                _events.Release();
            },
            OnCertificate = c =>
            {
                Serials.Enqueue(c.SerialNumber);
                _certificates.Release();
            },
        });
    }

    internal AcmeCertificate Certificate { get; }

    internal ConcurrentQueue<string> Events { get; } = new();

    internal ConcurrentQueue<string> Serials { get; } = new();

    internal static string NewFolder() => System.IO.Directory.CreateTempSubdirectory("whimbrel-acme-").FullName;

    /// <summary>Waits for one more certificate.</summary>
    internal async Task NextCertificateAsync() =>
        Assert.True(await _certificates.WaitAsync(RealProgram.Patience),
            $"no certificate: {string.Join('\n', Events)}");

    /// <summary>Waits for a diagnostic event with this text, and returns it.</summary>
    internal async Task<string> EventAsync(string text)
    {
        while (true)
        {
            Assert.True(await _events.WaitAsync(RealProgram.Patience),
                $"no event with '{text}', only: {string.Join('\n', Events)}");
            if (Events.FirstOrDefault(e => e.Contains(text, StringComparison.Ordinal)) is { } found) return found;
        }
    }

    /// <summary>Connects with TLS, and returns the stream and the server's certificate. Trusts everything.</summary>
    internal static async Task<(SslStream Stream, X509Certificate2 Certificate, int Chain)> ConnectAsync(int port,
        string name, string? protocol = null)
    {
        Socket socket = new(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        await socket.ConnectAsync(IPAddress.Loopback, port);
        X509Certificate2? seen = null;
        int chain = 0;
        SslStream stream = new(new NetworkStream(socket, ownsSocket: true));
        await stream.AuthenticateAsClientAsync(new SslClientAuthenticationOptions
        {
            TargetHost = name,
            ApplicationProtocols = protocol is null ? null : [new SslApplicationProtocol(protocol)],
            RemoteCertificateValidationCallback = (_, certificate, built, _) =>
            {
                seen = new X509Certificate2(certificate!);
                chain = built?.ChainPolicy.ExtraStore.Count ?? 0;
                return seen.Extensions.Count > 0; // any certificate
            },
        });
        return (stream, seen!, chain);
    }

    public async ValueTask DisposeAsync() => await Certificate.DisposeAsync();
}
