using System.Buffers.Text;
using System.Net;
using System.Security.Cryptography.X509Certificates;

namespace Whimbrel.Acme;

/// <summary>Options of an <see cref="AcmeCertificate"/>. Required: names, the terms, and a folder or a store.</summary>
public sealed class AcmeOptions
{
    private const int MostNames = 100;

    /// <summary>
    /// Names of the certificate, such as <c>example.org</c> and <c>www.example.org</c>: 1 to 100. The first one is also
    /// the name of the files. No wildcards and no addresses. International names are given as <c>xn--...</c>.
    /// </summary>
    public IReadOnlyList<string> Names { get; init; } = [];

    /// <summary>
    /// URL of the authority's directory. Default <see cref="AcmeDirectories.LetsEncrypt"/>; use
    /// <see cref="AcmeDirectories.LetsEncryptStaging"/> until everything works. Accounts and certificates of each
    /// directory are kept apart.
    /// </summary>
    public string Directory { get; init; } = AcmeDirectories.LetsEncrypt;

    /// <summary>Whether you accept the authority's terms of service. Must be true. Default false.</summary>
    public bool AcceptsTerms { get; init; }

    /// <summary>Mail address for the authority's messages, such as <c>admin@example.org</c>. Default null.</summary>
    public string? Contact { get; init; }

    /// <summary>Account of an authority that requires one (RFC 8555, 7.3.4). Default null.</summary>
    public AcmeExternalAccount? ExternalAccount { get; init; }

    /// <summary>Proof of control over the names. Default <see cref="AcmeChallenge.Http01"/>.</summary>
    public AcmeChallenge Challenge { get; init; }

    /// <summary>
    /// Address of a small HTTP server that answers challenges and redirects everything else to <c>https</c>, usually
    /// <c>http://*:80</c>. Default null: a server of your own has the route
    /// (<see cref="AcmeRoutes.AddAcmeChallenges"/>).
    /// </summary>
    public string? HttpAddress { get; init; }

    /// <summary>
    /// Folder of the account, the certificates and their private keys (<see cref="FolderAcmeStore"/>). May be shared by
    /// nodes. Set this or <see cref="Store"/>.
    /// </summary>
    public string? Folder { get; init; }

    /// <summary>Another store than a folder. Not disposed.</summary>
    public IAcmeStore? Store { get; init; }

    /// <summary>
    /// Whether handshakes get a self-signed certificate until the first one is issued. Default false: they fail until
    /// then.
    /// </summary>
    public bool SelfSignedUntilIssued { get; init; }

    /// <summary>
    /// Whether the nodes of one store share the keys of session tickets, so that a client that resumes at another node
    /// needs no full handshake. The secret is in the store, and is replaced every day. For <see
    /// cref="AcmeCertificate.Tls"/> only, and for servers with TLS by OpenSSL (Linux). Default false.
    /// </summary>
    public bool SharesTickets { get; init; }

    /// <summary>
    /// Roots that the directory's own certificate must lead to, for a private authority. Default null: those of the
    /// system.
    /// </summary>
    public X509Certificate2Collection? Roots { get; init; }

    /// <summary>Time limit of one order, validations included. 5 s to 1 hour; default 5 minutes.</summary>
    public TimeSpan OrderTimeout { get; init; } = TimeSpan.FromMinutes(5);

    /// <summary>
    /// Interval at which a node looks in the store for a certificate of another node. 100 ms to 1 hour; default 30 s.
    /// </summary>
    public TimeSpan LookEvery { get; init; } = TimeSpan.FromSeconds(30);

    /// <summary>
    /// Pause after a failed order. It doubles with each failure in a row up to <see cref="RetryAtMost"/>, and is longer
    /// if the authority asks for it. 100 ms to 1 day; default 2 minutes, which stays below the limits of Let's Encrypt.
    /// </summary>
    public TimeSpan RetryAfter { get; init; } = TimeSpan.FromMinutes(2);

    /// <summary>Maximum of <see cref="RetryAfter"/>. Up to 7 days; default 12 hours.</summary>
    public TimeSpan RetryAtMost { get; init; } = TimeSpan.FromHours(12);

    /// <summary>
    /// Callback for diagnostic events. On the thread pool; may block. Default null: standard error.
    /// </summary>
    public Action<DiagnosticEvent>? OnDiagnosticEvent { get; init; }

    /// <summary>
    /// Callback for each certificate that is put into use, also for one from the store. On the thread pool; may block.
    /// Default null.
    /// </summary>
    public Action<X509Certificate2>? OnCertificate { get; init; }

    /// <summary>Time limit of one request. Tests shorten it.</summary>
    internal TimeSpan RequestTimeout { get; init; } = TimeSpan.FromSeconds(30);

    internal void Check()
    {
        List<string> mistakes = [.. Names.Select(WrongWith).OfType<string>()];
        if (Names.Count is 0 or > MostNames)
            mistakes.Add($"Names has {Names.Count} entries, allowed 1 to {MostNames}: give the host names of "
                + $"your server");
        if (Names.Distinct(StringComparer.OrdinalIgnoreCase).Count() < Names.Count)
            mistakes.Add("Names has a name twice");
        if (!Uri.TryCreate(Directory, UriKind.Absolute, out Uri? url) || url.Scheme != Uri.UriSchemeHttps)
            mistakes.Add($"Directory = {Directory} is no https:// URL (AcmeDirectories has those of Let's Encrypt)");
        if (!AcceptsTerms)
            mistakes.Add("AcceptsTerms = false: the authority issues only to accounts that accept its terms of service."
                + " Read them, and set it to true");
        if (Contact is not null && (!Contact.Contains('@', StringComparison.Ordinal)
            || Contact.Contains(':', StringComparison.Ordinal)))
            mistakes.Add($"Contact = {Contact} is no mail address (such as admin@example.org, without mailto:)");
        if (ExternalAccount is { } account && (account.KeyId.Length == 0 || !IsKey(account.MacKey)))
            mistakes.Add("ExternalAccount needs a key identifier, and a MAC key in base64url, as the authority gives "
                + "them");
        if (!Enum.IsDefined(Challenge)) mistakes.Add($"Challenge = {Challenge}, allowed Http01 and TlsAlpn01");
        if (HttpAddress is not null && Challenge == AcmeChallenge.TlsAlpn01)
            mistakes.Add("HttpAddress is for Challenge = Http01: TlsAlpn01 is answered by the TLS server itself");
        if (HttpAddress is not null && Http.HttpServer.WrongWith(Http.HttpServer.AddressOf(HttpAddress)) is { } wrong)
            mistakes.Add($"HttpAddress: {wrong.TrimEnd('.')}");
        if (string.IsNullOrEmpty(Folder) == Store is null)
            mistakes.Add("give one of Folder and Store: the place of certificates, private keys and the account");
        Range(mistakes, nameof(OrderTimeout), OrderTimeout, TimeSpan.FromSeconds(5), TimeSpan.FromHours(1));
        Range(mistakes, nameof(LookEvery), LookEvery, TimeSpan.FromMilliseconds(100), TimeSpan.FromHours(1));
        Range(mistakes, nameof(RetryAfter), RetryAfter, TimeSpan.FromMilliseconds(100), TimeSpan.FromDays(1));
        Range(mistakes, nameof(RetryAtMost), RetryAtMost, RetryAfter, TimeSpan.FromDays(7));
        if (mistakes.Count == 0) return;
        throw new ArgumentException($"AcmeOptions has {mistakes.Count} "
            + $"{(mistakes.Count == 1 ? "mistake" : "mistakes")}: {string.Join("; ", mistakes)}.");
    }

    private static void Range(List<string> mistakes, string name, TimeSpan value, TimeSpan least, TimeSpan most)
    {
        if (value < least || value > most) mistakes.Add($"{name} = {value}, allowed {least} to {most}");
    }

    private static string? WrongWith(string name)
    {
        if (string.IsNullOrEmpty(name)) return "Names has an empty name";
        if (name.Contains('*', StringComparison.Ordinal))
            return $"'{name}' is a wildcard, which needs the challenge DNS-01: list the names instead";
        if (IPAddress.TryParse(name.Trim('[', ']'), out _)) return $"'{name}' is an address: give the host name";
        if (name.Contains("://", StringComparison.Ordinal)) return $"'{name}' is a URL: give the host name in it";
        if (!name.All(char.IsAscii)) return $"'{name}' has letters beyond ASCII: write it as xn--...";
        return Uri.CheckHostName(name) == UriHostNameType.Dns && name.Length <= 253 && name[^1] != '.'
            && !name.Contains('_', StringComparison.Ordinal)
            ? null
            : $"'{name}' is no host name";
    }

    private static bool IsKey(string text) =>
        text.Length > 0 && Base64Url.IsValid(text.TrimEnd('='), out int length) && length > 0;
}
