using System.Net;

namespace Whimbrel.Compat;

/// <summary>Statuses as text, and the usual words behind them.</summary>
internal static class StatusPhrases
{
    private const int First = 100;
    private const int Last = 599;

    private static readonly string?[] s_phrases = new string[Last - First + 1];
    private static readonly string?[] s_digits = new string[Last - First + 1];

    internal static string Of(int status)
    {
        ref string? phrase = ref s_phrases[IndexOf(status)];
        if (phrase is not null) return phrase;
        using HttpResponseMessage known = new((HttpStatusCode)status);
        return phrase = known.ReasonPhrase ?? "Unknown";
    }

    internal static string Digits(int status) => s_digits[IndexOf(status)] ??= status.ToString(System.Globalization.CultureInfo.InvariantCulture);

    private static int IndexOf(int status)
    {
        if (status is < First or > Last) throw new ArgumentOutOfRangeException(nameof(status), status, $"A status lies between {First} and {Last}.");
        return status - First;
    }
}
