using System.Text;

namespace Whimbrel.Acme;

/// <summary>
/// The values of one directory and one certificate in the store: their names, and the forms of those that are not plain
/// bytes.
/// </summary>
internal sealed class AcmeRecords
{
    private const int LeastToken = 16;
    private const int MostToken = 96; // twice as long in the name of a file

    private readonly IAcmeStore _store;
    private readonly string _folder;
    private readonly string _name;

    internal AcmeRecords(AcmeOptions options)
    {
        _store = options.Store ?? new FolderAcmeStore(options.Folder!);
        Uri directory = new(options.Directory);
        _folder = directory.IsDefaultPort ? directory.IdnHost : $"{directory.IdnHost.Trim('[', ']')}_{directory.Port}";
        _folder = _folder.ToLowerInvariant().Replace(':', '-').Trim('[', ']');
        _name = $"{_folder}/{options.Names[0].ToLowerInvariant()}";
    }

    /// <summary>Certificate, chain and key as one PEM text.</summary>
    internal string Certificate => $"{_name}.pem";

    /// <summary>
    /// Key of the order in progress: written before the order, so that a full disk prevents the order.
    /// </summary>
    internal string NextKey => $"{_name}.next.key";

    /// <summary>Time and secret of the session tickets.</summary>
    internal string Tickets => $"{_name}.tickets";

    private string Lease => $"{_name}.lease";

    private string Failure => $"{_name}.failure";

    private string AccountName => $"{_folder}/account.json";

    internal string TokenOf(string token) =>
        $"{_folder}/challenges/{Convert.ToHexStringLower(Encoding.ASCII.GetBytes(token))}";

    internal string AlpnOf(string name) => $"{_folder}/challenges/alpn-{name.ToLowerInvariant()}";

    /// <summary>
    /// Returns whether a text can be a token: letters of base64url, so it cannot lead out of a folder.
    /// </summary>
    internal static bool IsToken(string? text) =>
        text is { Length: >= LeastToken and <= MostToken }
        && text.All(static c => char.IsAsciiLetterOrDigit(c) || c is '-' or '_');

    internal ValueTask<byte[]?> ReadAsync(string name, CancellationToken stop) => _store.ReadAsync(name, stop);

    internal ValueTask WriteAsync(string name, ReadOnlyMemory<byte> value, CancellationToken stop) =>
        _store.WriteAsync(name, value, stop);

    internal ValueTask DeleteAsync(string name, CancellationToken stop) => _store.DeleteAsync(name, stop);

    internal ValueTask<bool> TryLeaseAsync(string node, TimeSpan duration, CancellationToken stop) =>
        _store.TryLeaseAsync(Lease, node, duration, stop);

    /// <summary>Takes the right to replace the secret of session tickets, until it expires.</summary>
    internal ValueTask<bool> TryLeaseTicketsAsync(string node, TimeSpan duration, CancellationToken stop) =>
        _store.TryLeaseAsync($"{_name}.tickets.lease", node, duration, stop);

    internal ValueTask EndLeaseAsync(string node) => _store.EndLeaseAsync(Lease, node, CancellationToken.None);

    /// <summary>Returns the account; an empty one if there is none, or if it cannot be read.</summary>
    internal async Task<AccountRecordJson> ReadAccountAsync(CancellationToken stop) =>
        AcmeJson.Read(await _store.ReadAsync(AccountName, stop).ConfigureAwait(false) ?? "{}"u8.ToArray(),
            AcmeJson.Default.AccountRecordJson) ?? new AccountRecordJson(null, null);

    internal ValueTask WriteAccountAsync(AccountRecordJson account, CancellationToken stop) =>
        _store.WriteAsync(AccountName, AcmeJson.Write(account, AcmeJson.Default.AccountRecordJson), stop);

    internal async Task<FailureRecordJson?> ReadFailureAsync(CancellationToken stop) =>
        await _store.ReadAsync(Failure, stop).ConfigureAwait(false) is { } json
            ? AcmeJson.Read(json, AcmeJson.Default.FailureRecordJson)
            : null;

    internal ValueTask WriteFailureAsync(FailureRecordJson failure, CancellationToken stop) =>
        _store.WriteAsync(Failure, AcmeJson.Write(failure, AcmeJson.Default.FailureRecordJson), stop);

    internal ValueTask DeleteFailureAsync(CancellationToken stop) => _store.DeleteAsync(Failure, stop);
}
