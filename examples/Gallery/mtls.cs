#:project ../../src/Whimbrel/Whimbrel.csproj
// Mutual TLS: a client is known by its certificate, which the authority of this server has signed.
// Try it: whimbrel certs --client anna, dotnet run mtls.cs tls://127.0.0.1:2222 certs, and
//         whimbrel connect --ca certs/ca.pem --cert certs/anna.pem --key certs/anna.key tls://localhost:2222
using System.Security.Cryptography.X509Certificates;
using Whimbrel;

string address = args.ElementAtOrDefault(0) ?? "tls://127.0.0.1:2222";
string folder = args.ElementAtOrDefault(1) ?? "certs";
X509Certificate2Collection authority = [];
authority.ImportFromPemFile($"{folder}/ca.pem");
ServerOptions options = new()
{
    Address = address,
    Tls = new TlsOptions
    {
        Certificate = TlsCertificate.FromPemFile($"{folder}/server.pem", $"{folder}/server.key"),
        ClientCertificates = TlsClientCertificates.Required,
        Roots = authority, // this authority only, and not those of the system
    },
};
await using Server server = new(options, () => new Visitor());
await server.StartAsync();
Console.WriteLine($"Listening at {server.EndPoint}. Ctrl-C stops.");
await StopSignal.WaitAsync();

sealed class Visitor : Session
{
    private string? _name;

    protected override void OnTlsHandshakeCompleted(TlsInfo info) =>
        _name = info.PeerCertificate!.GetNameInfo(X509NameType.SimpleName, forIssuer: false);

    protected override void OnConnected() => Send($"Welcome, {_name}.\n");

    protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);

    // Instead of OnConnected: the handshake failed.
    protected override void OnConnectFailed(CloseReason reason) =>
        Console.WriteLine($"{RemoteEndPoint} was rejected: {reason}");
}
