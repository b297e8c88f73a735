using System.Net;

namespace Whimbrel.Compat;

/// <summary>Status codes as text, and their reason phrases.</summary>
internal static class StatusPhrases
{
    private const int First = 100;
    private const int Last = 999;

    private static readonly string?[] s_phrases = new string[Last - First + 1];
    private static readonly string?[] s_digits = new string[Last - First + 1];

    // Phrases that the framework lacks, or that differ in the original.
    private static readonly Dictionary<int, string> s_own = new()
    {
        [306] = "Switch Proxy",
        [413] = "Payload Too Large",
        [414] = "URI Too Long",
        [416] = "Range Not Satisfiable",
        [425] = "Too Early",
        [427] = "Unassigned",
        [505] = "HTTP Version Not Supported",
    };

    internal static string Of(int status)
    {
        ref string? phrase = ref s_phrases[IndexOf(status)];
        if (phrase is not null) return phrase;
        using HttpResponseMessage known = new((HttpStatusCode)status);
        return phrase = s_own.TryGetValue(status, out string? own) ? own : known.ReasonPhrase ?? "Unknown";
    }

    internal static string Digits(int status) =>
        s_digits[IndexOf(status)] ??= status.ToString(System.Globalization.CultureInfo.InvariantCulture);

    private static int IndexOf(int status)
    {
        if (status is < First or > Last)
            throw new ArgumentOutOfRangeException(nameof(status), status,
                $"A status is a number of three digits, {First} to {Last}: no reader takes another one.");
        return status - First;
    }
}
