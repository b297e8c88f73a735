using System.Text;
using System.Text.Json.Serialization.Metadata;

namespace Whimbrel.Acme;

/// <summary>
/// One account at one authority: directory, nonces and signed requests (RFC 8555, 6 and 7.3). Sequential: one request
/// at a time.
/// </summary>
internal sealed class AcmeClient(AcmeTransport transport, AcmeOptions options, AccountKey key, string? account)
{
    private const int NonceTries = 10;
    private const int MostNonces = 8;
    private const int MostDetail = 500;
    private const string Prefix = "urn:ietf:params:acme:error:";

    private readonly Stack<string> _nonces = new();
    private DirectoryJson? _directory;

    internal AccountKey Key => key;

    /// <summary>URL of the account, or null before <see cref="RegisterAsync"/>.</summary>
    internal string? Account { get; private set; } = account;

    /// <summary>Returns the directory; read once.</summary>
    internal async Task<DirectoryJson> DirectoryAsync(CancellationToken stop) =>
        _directory ??= await ReadDirectoryAsync(transport, options, stop).ConfigureAwait(false);

    internal static async Task<DirectoryJson> ReadDirectoryAsync(AcmeTransport transport, AcmeOptions options,
        CancellationToken stop)
    {
        AcmeReply reply =
            await transport.SendAsync(HttpMethod.Get, options.Directory, null, stop).ConfigureAwait(false);
        ThrowIfFailed(reply);
        DirectoryJson directory = Read(reply, AcmeJson.Default.DirectoryJson);
        if (directory is not { NewNonce: not null, NewAccount: not null, NewOrder: not null })
            throw new AcmeException($"{options.Directory} is no ACME directory: newNonce, newAccount or newOrder is "
                + $"missing in it.");
        return directory;
    }

    /// <summary>Creates the account, or finds the one of this key, and remembers its URL.</summary>
    internal async Task RegisterAsync(CancellationToken stop)
    {
        DirectoryJson directory = await DirectoryAsync(stop).ConfigureAwait(false);
        if (directory.Meta?.ExternalAccountRequired == true && options.ExternalAccount is null)
            throw new AcmeException($"{options.Directory} issues to its customers only: set AcmeOptions.ExternalAccount"
                + $" to the key identifier and the MAC key that it gave you.");
        AccountRequestJson request = new(true, options.Contact is { } mail ? [$"mailto:{mail}"] : null,
            options.ExternalAccount is { } external ? key.Bind(external, directory.NewAccount!) : null);
        Account = null;
        AcmeReply reply = await PostAsync(directory.NewAccount,
            AcmeJson.Write(request, AcmeJson.Default.AccountRequestJson), stop).ConfigureAwait(false);
        Account = reply.Location
            ?? throw new AcmeException($"{reply.Request} created an account and did not give its URL.");
    }

    /// <summary>Fetches a resource, or returns an error as <see cref="AcmeException"/>.</summary>
    internal async Task<(T Value, AcmeReply Reply)> GetAsync<T>(string? url, JsonTypeInfo<T> type,
        CancellationToken stop)
        where T : class
    {
        AcmeReply reply = await PostAsync(url, default, stop).ConfigureAwait(false);
        return (Read(reply, type), reply);
    }

    /// <summary>
    /// Sends a signed request. A rejected nonce is replaced, at most ten times. An error of the authority becomes an
    /// <see cref="AcmeException"/>.
    /// </summary>
    internal async Task<AcmeReply> PostAsync(string? url, ReadOnlyMemory<byte> payload, CancellationToken stop)
    {
        for (int i = 0; ; i++)
        {
            string nonce = _nonces.TryPop(out string? kept) ? kept : await NonceAsync(stop).ConfigureAwait(false);
            AcmeReply reply = await transport.SendAsync(HttpMethod.Post, url,
                key.Sign(url!, nonce, Account, payload.Span), stop).ConfigureAwait(false);
            if (reply.Nonce is { } next && _nonces.Count < MostNonces) _nonces.Push(next);
            if (reply.Status < 400) return reply;
            if (ProblemOf(reply)?.Type != $"{Prefix}badNonce") ThrowIfFailed(reply);
            if (i == NonceTries - 1)
                throw new AcmeException($"{reply.Request} rejected {NonceTries} nonces, each of them new.", null,
                    $"{Prefix}badNonce");
        }
    }

    private async Task<string> NonceAsync(CancellationToken stop)
    {
        DirectoryJson directory = await DirectoryAsync(stop).ConfigureAwait(false);
        AcmeReply reply = await transport.SendAsync(HttpMethod.Head, directory.NewNonce, null, stop)
            .ConfigureAwait(false);
        ThrowIfFailed(reply);
        return reply.Nonce ?? throw new AcmeException($"{reply.Request} was answered without a nonce (Replay-Nonce).");
    }

    internal static T Read<T>(AcmeReply reply, JsonTypeInfo<T> type)
        where T : class =>
        AcmeJson.Read(reply.Body, type) ?? throw new AcmeException($"{reply.Request} was answered ({reply.Status}) by "
            + $"something else than the JSON of RFC 8555: {Excerpt(reply.Body)}");

    internal static void ThrowIfFailed(AcmeReply reply)
    {
        if (reply.Status < 400) return;
        ProblemJson? problem = ProblemOf(reply);
        throw new AcmeException(
            $"{reply.Request} failed ({reply.Status}): {(problem is null ? Excerpt(reply.Body) : TextOf(problem))}",
            null, problem?.Type, reply.RetryAfter);
    }

    /// <summary>
    /// Returns the words of the authority: the short type, the detail, and what it says of single names.
    /// </summary>
    internal static string TextOf(ProblemJson problem)
    {
        StringBuilder text = new();
        text.Append(problem.Type is { } type && type.StartsWith(Prefix, StringComparison.Ordinal)
            ? type[Prefix.Length..]
            : problem.Type ?? "an error without a type");
        if (problem.Detail is { } detail) text.Append(": ").Append(detail.TrimEnd('.'));
        foreach (ProblemJson part in problem.Subproblems ?? [])
            text.Append("; ").Append(part.Identifier?.Value ?? "a name").Append(": ").Append(part.Detail?.TrimEnd('.'));
        return Cut(text.Append('.').ToString());
    }

    private static ProblemJson? ProblemOf(AcmeReply reply) => AcmeJson.Read(reply.Body, AcmeJson.Default.ProblemJson);

    private static string Excerpt(byte[] body) =>
        body.Length == 0 ? "an empty body." : $"'{Cut(Encoding.UTF8.GetString(body, 0, Math.Min(body.Length, 100)))}'.";

    private static string Cut(string text) => text.Length > MostDetail ? $"{text[..MostDetail]}..." : text;
}
