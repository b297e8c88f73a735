using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Security.Cryptography.X509Certificates;

namespace Whimbrel.Tool;

/// <summary>Subject alternative name of a certificate: a DNS name, possibly with a wildcard as its first label, or an
/// IP address.</summary>
internal sealed record SubjectName
{
    private const int MostLength = 253;
    private const int MostLabelLength = 63;

    private SubjectName(string text, IPAddress? address)
    {
        Text = text;
        Address = address;
    }

    /// <summary>Names of a server on the developer's machine.</summary>
    internal static IReadOnlyList<SubjectName> OfThisMachine { get; } = [new("localhost", null),
        new("127.0.0.1", IPAddress.Loopback), new("::1", IPAddress.IPv6Loopback)];

    /// <summary>Text in the certificate: lower case, converted to ASCII.</summary>
    internal string Text { get; }

    /// <summary>IP address, or null for a DNS name.</summary>
    internal IPAddress? Address { get; }

    /// <summary>Parses a name. Returns null and a message for invalid text.</summary>
    internal static SubjectName? Read(string text, out string? mistake)
    {
        mistake = null;
        string bare = text is ['[', .., ']'] ? text[1..^1] : text;
        if (bare.Contains(':', StringComparison.Ordinal)
            || bare.Split('.').All(static part => part.Length > 0 && part.All(char.IsAsciiDigit)))
        {
            // Digits and dots alone are never a name, and the parser would change "127.1".
            if (IPAddress.TryParse(bare, out IPAddress? address)
                && (address.AddressFamily == AddressFamily.InterNetworkV6 || address.ToString() == bare))
            {
                return new SubjectName(address.ToString(), address);
            }

            mistake = $"'{text}' is neither an IP address nor a name: leave out the port";
            return null;
        }

        string? ascii = AsciiOf(text.TrimEnd('.'));
        if (ascii is not null && IsName(ascii)) return new SubjectName(ascii, null);
        mistake = $"'{text}' is neither a DNS name such as chat.example or *.chat.example nor an IP address";
        return null;
    }

    internal void AddTo(SubjectAlternativeNameBuilder names)
    {
        if (Address is not null) names.AddIpAddress(Address);
        else names.AddDnsName(Text);
    }

    private static string? AsciiOf(string name)
    {
        try
        {
            return new IdnMapping().GetAscii(name).ToLowerInvariant();
        }
        catch (ArgumentException)
        {
            return null;
        }
    }

    private static bool IsName(string name)
    {
        // A wildcard is one whole label, and never directly below a top-level domain.
        string[] labels = name.Split('.');
        bool hasWildcard = labels[0] == "*";
        return name.Length <= MostLength && (!hasWildcard || labels.Length >= 3)
            && labels.Skip(hasWildcard ? 1 : 0).All(IsLabel);
    }

    private static bool IsLabel(string label) =>
        label.Length is > 0 and <= MostLabelLength && label[0] != '-' && label[^1] != '-'
        && label.All(static c => char.IsAsciiLetterOrDigit(c) || c is '-' or '_');
}
