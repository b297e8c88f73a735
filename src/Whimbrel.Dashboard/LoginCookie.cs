using System.Globalization;
using System.Security.Cryptography;
using System.Text;

namespace Whimbrel.Dashboard;

/// <summary>
/// Value of the cookie of a login: its end, and a signature by a key of this process. So nothing is stored for each
/// login, and a restart ends all of them.
/// </summary>
internal sealed class LoginCookie
{
    internal static readonly TimeSpan Lifetime = TimeSpan.FromHours(12);

    private const int MostText = 128;

    private readonly byte[] _key = RandomNumberGenerator.GetBytes(32);

    internal string Make(DateTimeOffset now)
    {
        string end = now.Add(Lifetime).ToUnixTimeSeconds().ToString(CultureInfo.InvariantCulture);
        return $"{end}.{SignatureOf(end)}";
    }

    /// <summary>Returns whether a value was made by this object and has not ended.</summary>
    internal bool IsValid(string? value, DateTimeOffset now)
    {
        if (value is null || value.Length > MostText) return false;
        int dot = value.IndexOf('.', StringComparison.Ordinal);
        if (dot <= 0) return false;
        string end = value[..dot];
        if (!CryptographicOperations.FixedTimeEquals(Encoding.UTF8.GetBytes(value[(dot + 1)..]),
                Encoding.UTF8.GetBytes(SignatureOf(end))))
            return false;
        long until = long.Parse(end, NumberStyles.None, CultureInfo.InvariantCulture);
        return until > now.ToUnixTimeSeconds();
    }

    private string SignatureOf(string end) =>
        Convert.ToHexStringLower(HMACSHA256.HashData(_key, Encoding.UTF8.GetBytes(end)));
}
