using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Security.Cryptography.X509Certificates;

namespace Whimbrel.Tool;

/// <summary>One name that a certificate stands for: a DNS name, perhaps with a wildcard as its first part, or an IP address. A value.</summary>
internal sealed record SubjectName
{
    private const int MostLength = 253;
    private const int MostLabelLength = 63;

    private SubjectName(string text, IPAddress? address)
    {
        Text = text;
        Address = address;
    }

    /// <summary>What a server on the developer's own machine is called.</summary>
    internal static IReadOnlyList<SubjectName> OfThisMachine { get; } = [new("localhost", null), new("127.0.0.1", IPAddress.Loopback), new("::1", IPAddress.IPv6Loopback)];

    /// <summary>As it stands in the certificate: in lower case, and in ASCII where it was not.</summary>
    internal string Text { get; }

    /// <summary>Null for a DNS name.</summary>
    internal IPAddress? Address { get; }

    /// <summary>Null, and what is wrong, for text that is neither a name nor an address.</summary>
    internal static SubjectName? Read(string text, out string? mistake)
    {
        mistake = null;
        string bare = text is ['[', .., ']'] ? text[1..^1] : text;
        if (bare.Contains(':', StringComparison.Ordinal) || bare.Split('.').All(static part => part.Length > 0 && part.All(char.IsAsciiDigit)))
        {
            // Digits and dots alone are never a name; what the parser makes of "127.1" is not what was written.
            if (IPAddress.TryParse(bare, out IPAddress? address) && (address.AddressFamily == AddressFamily.InterNetworkV6 || address.ToString() == bare))
            {
                return new SubjectName(address.ToString(), address);
            }

            mistake = $"'{text}' is no IP address, and no name: a port does not belong here";
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
        // A wildcard stands for one whole part, and never for a whole top-level domain.
        string[] labels = name.Split('.');
        bool hasWildcard = labels[0] == "*";
        return name.Length <= MostLength && (!hasWildcard || labels.Length >= 3) && labels.Skip(hasWildcard ? 1 : 0).All(IsLabel);
    }

    private static bool IsLabel(string label) =>
        label.Length is > 0 and <= MostLabelLength && label[0] != '-' && label[^1] != '-' && label.All(static c => char.IsAsciiLetterOrDigit(c) || c is '-' or '_');
}
