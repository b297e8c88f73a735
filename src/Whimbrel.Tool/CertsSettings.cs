namespace Whimbrel.Tool;

/// <summary>Settings of <c>whimbrel certs</c>.</summary>
/// <param name="Folder">Folder of the files, which is created if missing.</param>
/// <param name="Server">Name of the server's files.</param>
/// <param name="WantsServer">True if the server's certificate was requested by name: an existing one is then an
/// error.</param>
/// <param name="SubjectNames">Names of the server; empty for those of this machine.</param>
/// <param name="Clients">Common names of clients; empty for one named client.</param>
/// <param name="RsaBits">RSA key length in bits; 0 for P-256.</param>
/// <param name="Days">Validity of servers' and clients' certificates, in days.</param>
/// <param name="Password">Password that encrypts written private keys, or null.</param>
/// <param name="Force">True to replace existing files, except the authority.</param>
/// <param name="NewAuthority">True to replace the authority as well.</param>
internal sealed record CertsSettings(string Folder, string Server, bool WantsServer,
    IReadOnlyList<SubjectName> SubjectNames, IReadOnlyList<string> Clients, int RsaBits, int Days, string? Password,
    bool Force, bool NewAuthority)
{
    internal const int DefaultDays = 365;
    internal const int MostDays = 36_500;
    internal const string DefaultFolder = "certs";
    internal const string DefaultServer = "server";
    internal const string DefaultClient = "client";
}
