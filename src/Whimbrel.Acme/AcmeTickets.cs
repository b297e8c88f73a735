using System.Globalization;
using System.Security.Cryptography;
using System.Text;

namespace Whimbrel.Acme;

/// <summary>
/// The secret of session tickets that the nodes of one store share: one node replaces it every day, the others take it
/// when they look into the store. Until the store has one, each node has a secret of its own. One call at a time.
/// </summary>
internal sealed class AcmeTickets(AcmeRecords records, string node)
{
    internal static readonly TimeSpan Life = TimeSpan.FromDays(1);

    private const int SecretBytes = 32;
    private static readonly TimeSpan s_lease = TimeSpan.FromMinutes(1);
    private static readonly TimeSpan s_clockError = TimeSpan.FromHours(1);

    /// <summary>Keys for <see cref="TlsOptions.TicketKeys"/>.</summary>
    internal TlsTicketKeys Keys { get; } = new(RandomNumberGenerator.GetBytes(SecretBytes));

    /// <summary>Secret of the store; empty until there is one.</summary>
    internal byte[] Secret { get; private set; } = [];

    /// <summary>Takes the secret of the store, and replaces it if it is old or missing.</summary>
    internal async Task LookAsync(DateTimeOffset now, CancellationToken stop)
    {
        if (await TakeAsync(now, stop).ConfigureAwait(false)
            || !await records.TryLeaseTicketsAsync(node, s_lease, stop).ConfigureAwait(false)) return;
        // A node that had the lease before may have replaced it since.
        if (await TakeAsync(now, stop).ConfigureAwait(false)) return;
        byte[] secret = RandomNumberGenerator.GetBytes(SecretBytes);
        string text = $"{now.UtcDateTime.ToString("O", CultureInfo.InvariantCulture)} {Convert.ToBase64String(secret)}";
        await records.WriteAsync(records.Tickets, Encoding.ASCII.GetBytes(text), stop).ConfigureAwait(false);
        await TakeAsync(now, stop).ConfigureAwait(false);
    }

    /// <summary>Returns whether the store has a secret that is young enough, which is then in use.</summary>
    private async Task<bool> TakeAsync(DateTimeOffset now, CancellationToken stop)
    {
        byte[]? stored = await records.ReadAsync(records.Tickets, stop).ConfigureAwait(false);
        if (stored is null) return false;
        (DateTimeOffset since, byte[] secret) = Read(stored);
        if (secret.Length == 0) return false;
        if (!secret.AsSpan().SequenceEqual(Secret))
        {
            Secret = secret;
            Keys.Replace(secret);
        }

        return now - since < Life && since - now < s_clockError;
    }

    /// <summary>Reads a record. The secret is empty if it is none, and is replaced then.</summary>
    private static (DateTimeOffset Since, byte[] Secret) Read(byte[] stored)
    {
        string[] parts = Encoding.ASCII.GetString(stored).Split(' ');
        byte[] secret = new byte[SecretBytes];
        return parts.Length == 2 && Convert.TryFromBase64String(parts[1], secret, out int count)
            && count == SecretBytes && DateTimeOffset.TryParseExact(parts[0], "O", CultureInfo.InvariantCulture,
                DateTimeStyles.AssumeUniversal, out DateTimeOffset since)
            ? (since, secret)
            : (default, []);
    }
}
