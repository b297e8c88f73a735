namespace Whimbrel.Tool;

/// <summary>What <c>whimbrel certs</c> was asked for.</summary>
/// <param name="Folder">Where the files go; made when missing.</param>
/// <param name="Server">Name of the server's files.</param>
/// <param name="WantsServer">The server's certificate was asked for by name: that it is there already is then a mistake.</param>
/// <param name="SubjectNames">What the server is called; empty for the names of this machine.</param>
/// <param name="Clients">Common names of clients; empty for one called client.</param>
/// <param name="RsaBits">0 for P-256.</param>
/// <param name="Days">How long servers' and clients' certificates last.</param>
/// <param name="Password">Encrypts every private key that is written, or null.</param>
/// <param name="Force">Replace what is there, the authority excepted.</param>
/// <param name="NewAuthority">Replace the authority as well.</param>
internal sealed record CertsSettings(string Folder, string Server, bool WantsServer, IReadOnlyList<SubjectName> SubjectNames, IReadOnlyList<string> Clients, int RsaBits, int Days, string? Password, bool Force, bool NewAuthority)
{
    internal const int DefaultDays = 365;
    internal const int MostDays = 36_500;
    internal const string DefaultFolder = "certs";
    internal const string DefaultServer = "server";
    internal const string DefaultClient = "client";
}
