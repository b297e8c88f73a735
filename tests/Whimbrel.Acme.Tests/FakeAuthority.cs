using System.Buffers.Text;
using System.Net;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using System.Text.Json;
using Whimbrel.Conformance;
using Whimbrel.Http;

namespace Whimbrel.Acme.Tests;

/// <summary>
/// An authority that speaks the protocol, validates nothing, has renewal information, and lies where a test
/// says so.
/// </summary>
internal sealed class FakeAuthority : IAsyncDisposable
{
    private readonly HttpServer _server;
    private byte[] _chain = [];
    private int _nonce;
    private bool _isFinalized;

    private FakeAuthority() => _server = new HttpServer(new ServerOptions
    {
        Address = "tls://127.0.0.1:0",
        Tls = TestCertificates.ServerOptions.WithApplicationProtocols("http/1.1"),
        OnDiagnosticEvent = static e => Console.Error.WriteLine(e.Message),
    });

    internal string Url => $"https://localhost:{((IPEndPoint)_server.EndPoint!).Port}";

    internal string Directory => $"{Url}/dir";

    /// <summary>Answers a request instead of the authority if it returns true; by the path without the slash.</summary>
    internal Func<string, HttpResponse, bool> Lie { get; set; } = static (_, _) => false;

    /// <summary>"slow": the directory never ends; "no nonce": there are none.</summary>
    internal volatile string LieSlowly = "";

    /// <summary>Changes the chain before it is sent.</summary>
    internal Func<string, string> Change { get; set; } = static pem => pem;

    /// <summary>Suggested window, relative to now; null for an authority without renewal information.</summary>
    internal (TimeSpan Start, TimeSpan End)? Window { get; set; }

    /// <summary>The payloads of all orders.</summary>
    internal List<string> Orders { get; } = [];

    internal List<string> Paths { get; } = [];

    internal static async Task<FakeAuthority> StartAsync()
    {
        FakeAuthority authority = new();
        authority._server.Get("/{*path}", authority.AnswerSlowly);
        authority._server.Post("/{*path}", authority.Answer);
        await authority._server.StartAsync();
        return authority;
    }

    private async Task AnswerSlowly(HttpRequest request, HttpResponse response, CancellationToken stop)
    {
        if (LieSlowly == "slow")
        {
            await response.WriteAsync("{ "u8.ToArray(), stop);
            await Task.Delay(Timeout.Infinite, stop); // tidy: waits because this is what a slow body is
        }

        Answer(request, response);
    }

    private void Answer(HttpRequest request, HttpResponse response)
    {
        string path = Encoding.ASCII.GetString(request.Path[1..]);
        lock (Paths) Paths.Add(path);
        if (LieSlowly != "no nonce") response.Add("Replay-Nonce", $"nonce{Interlocked.Increment(ref _nonce)}");
        if (Lie(path, response)) return;
        string order = _isFinalized ? "valid" : "ready";
        switch (path.Split('/')[0])
        {
            case "dir":
                Json(response, 200, $$"""
                    { "newNonce": "{{Url}}/nonce", "newAccount": "{{Url}}/account", "newOrder": "{{Url}}/order"
                      {{(Window is null ? "" : $", \"renewalInfo\": \"{Url}/renewal\"")}} }
                    """);
                break;
            case "nonce":
                response.Empty(200);
                break;
            case "account":
                response.Add("Location", $"{Url}/accounts/1");
                Json(response, 201, "{}");
                break;
            case "order":
                _isFinalized = false;
                lock (Orders) Orders.Add(PayloadOf(request));
                response.Add("Location", $"{Url}/orders/1");
                Json(response, 201, Order("pending"));
                break;
            case "orders":
                Json(response, 200, Order(order));
                break;
            case "authz":
                Json(response, 200, """{ "status": "valid", "identifier": { "type": "dns", "value": "one.test" } }""");
                break;
            case "finalize":
                _chain = Issue(PayloadOf(request));
                _isFinalized = true;
                Json(response, 200, Order("processing"));
                break;
            case "certificate":
                response.Bytes(_chain, "application/pem-certificate-chain"u8);
                break;
            case "renewal":
                DateTimeOffset now = DateTimeOffset.UtcNow, start = now + Window!.Value.Start,
                    end = now + Window.Value.End;
                Json(response, 200, $$"""{ "suggestedWindow": { "start": "{{start:O}}", "end": "{{end:O}}" } }""");
                break;
            default:
                response.Fail(404);
                break;
        }
    }

    private string Order(string status) => $$"""
        { "status": "{{status}}", "authorizations": [ "{{Url}}/authz/1" ], "finalize": "{{Url}}/finalize/1"
          {{(status == "valid" ? $", \"certificate\": \"{Url}/certificate/1\"" : "")}} }
        """;

    private static string PayloadOf(HttpRequest request)
    {
        using JsonDocument jws = JsonDocument.Parse(request.BodyBytes.ToArray());
        return Encoding.UTF8.GetString(Base64Url.DecodeFromChars(jws.RootElement.GetProperty("payload").GetString()));
    }

    private byte[] Issue(string payload)
    {
        using JsonDocument finalize = JsonDocument.Parse(payload);
        CertificateRequest request = CertificateRequest.LoadSigningRequest(
            Base64Url.DecodeFromChars(finalize.RootElement.GetProperty("csr").GetString()), HashAlgorithmName.SHA256,
            CertificateRequestLoadOptions.UnsafeLoadCertificateExtensions);
        request.CertificateExtensions.Add(
            X509AuthorityKeyIdentifierExtension.CreateFromSubjectKeyIdentifier((ReadOnlySpan<byte>)[1, 2, 3, 4]));
        using X509Certificate2 leaf = request.Create(TestCertificates.Root.SubjectName,
            X509SignatureGenerator.CreateForECDsa(TestCertificates.Root.GetECDsaPrivateKey()!),
            DateTimeOffset.UtcNow.AddMinutes(-1), DateTimeOffset.UtcNow.AddDays(20),
            RandomNumberGenerator.GetBytes(12));
        return Encoding.ASCII.GetBytes(
            Change($"{leaf.ExportCertificatePem()}\n{TestCertificates.Root.ExportCertificatePem()}\n"));
    }

    internal static void Json(HttpResponse response, int status, string json)
    {
        response.Status = status;
        response.Bytes(Encoding.UTF8.GetBytes(json), "application/json"u8);
    }

    public ValueTask DisposeAsync() => _server.DisposeAsync();
}
