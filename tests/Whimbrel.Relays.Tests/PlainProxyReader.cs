using System.Net;
using System.Text;
using System.Text.RegularExpressions;

namespace Whimbrel.Relays.Tests;

/// <summary>Reference reader of PROXY headers, written from the specification with regular expressions and lists: slow,
/// and independent of the real one.</summary>
internal static partial class PlainProxyReader
{
    private const string Octet = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";

    [GeneratedRegex($@"^{Octet}\.{Octet}\.{Octet}\.{Octet}\z")]
    private static partial Regex V4();

    [GeneratedRegex(@"^(0|[1-9][0-9]{0,4})\z")]
    private static partial Regex Number();

    internal static string Outcome(byte[] bytes, out int length)
    {
        length = 0;
        if (bytes.Length == 0) return "more";
        byte[] signature = Convert.FromHexString(ProxyVectors.Signature);
        if (bytes.Take(12).SequenceEqual(signature.Take(bytes.Length))) return Binary(bytes, out length);
        string text = Encoding.Latin1.GetString(bytes);
        if (text.Length < 6
            ? "PROXY ".StartsWith(text, StringComparison.Ordinal)
            : text.StartsWith("PROXY ", StringComparison.Ordinal))
            return Line(text, out length);
        return "NotAHeader";
    }

    private static string Line(string text, out int length)
    {
        length = 0;
        string window = text.Length > 107 ? text[..107] : text;
        int end = window.IndexOfAny(['\r', '\n']);
        if (end < 0) return window.Length == 107 ? "TooLong" : "more";
        if (window[end] == '\n') return "LineEnd";
        if (end == 106) return "TooLong";
        if (end + 1 == window.Length) return "more";
        if (window[end + 1] == '\r' || window[end + 1] != '\n') return "LineEnd";
        string outcome = Fields(window[6..end].Split(' '));
        if (!Enum.TryParse<ProxyFault>(outcome, out _)) length = end + 2;
        return outcome;
    }

    private static string Fields(string[] fields)
    {
        if (fields[0] == "UNKNOWN") return "unknown";
        if (fields.Length != 5 || fields[0] is not ("TCP4" or "TCP6") || fields.Any(static f => f.Length == 0))
            return "Fields";
        List<IPAddress> addresses = [];
        foreach (string address in fields[1..3])
        {
            if (fields[0] == "TCP4"
                ? !V4().IsMatch(address)
                : !(address.Contains(':') && address.All(static c => char.IsAsciiHexDigit(c) || c is ':' or '.')))
                return "Address";
            if (!IPAddress.TryParse(address, out IPAddress? parsed)) return "Address";
            addresses.Add(parsed);
        }

        foreach (string port in fields[3..])
        {
            if (!Number().IsMatch(port) || int.Parse(port, null) > 65535) return "Port";
        }

        return $"{new IPEndPoint(addresses[0], int.Parse(fields[3], null))} to "
            + $"{new IPEndPoint(addresses[1], int.Parse(fields[4], null))}";
    }

    private static string Binary(byte[] bytes, out int length)
    {
        length = 0;
        if (bytes.Length < 13) return "more";
        if (bytes[12] / 16 != 2) return "Version";
        int command = bytes[12] % 16;
        if (command > 1) return "Command";
        if (bytes.Length < 14) return "more";
        int[] known = [0, 1, 2, 0x11, 0x12, 0x21, 0x22, 0x31, 0x32];
        int family = command == 0 ? 0 : bytes[13];
        if (!known.Contains(family)) return "Family";
        if (bytes.Length < 16) return "more";
        int rest = (bytes[14] * 256) + bytes[15];
        int addresses = (family / 16) switch { 0 => 0, 1 => 12, 2 => 36, _ => 216 };
        if (rest < addresses) return "TooShort";
        if (rest + 16 > 4096) return "TooLong";
        if (bytes.Length < rest + 16) return "more";
        byte[] all = bytes[..(rest + 16)];
        if (command == 0)
        {
            length = all.Length;
            return "local";
        }

        string? fault = Extensions([.. all.Skip(16 + addresses)], all, 16 + addresses);
        if (fault == "Extension" && family < 16) fault = null; // addresses that only the sender can interpret
        if (fault is not null) return fault;
        length = all.Length;
        byte[] block = all[16..(16 + addresses)];
        return (family / 16) switch
        {
            0 => "unknown",
            1 => $"{Address(block, 0, 4, 8)} to {Address(block, 4, 4, 10)}",
            2 => $"{Address(block, 0, 16, 32)} to {Address(block, 16, 16, 34)}",
            _ => Paths(block),
        };
    }

    // What .NET accepts as a path is left to the real reader: here it only matters whether there is one.
    private static string Paths(byte[] block)
    {
        ProxyHeader.Read([.. Convert.FromHexString(ProxyVectors.Signature + "213100D8"), .. block],
            out ProxyHeader? header, out _, out _);
        return header!.ToString();
    }

    private static IPEndPoint Address(byte[] block, int at, int size, int port) =>
        new(new IPAddress(block[at..(at + size)]), (block[port] * 256) + block[port + 1]);

    private static string? Extensions(List<byte> rest, byte[] all, int at)
    {
        int? checksum = null;
        while (rest.Count > 0)
        {
            if (rest.Count < 3) return "Extension";
            int size = (rest[1] * 256) + rest[2];
            if (rest.Count < 3 + size) return "Extension";
            if (rest[0] == 3 && (size != 4 || checksum is not null)) return "Extension";
            if (rest[0] == 3) checksum = at + 3;
            if (rest[0] == 5 && size > 128) return "Extension";
            if (rest[0] == 0x20 && (size < 5 || !AreWhole(rest[8..(3 + size)]))) return "Extension";
            at += 3 + size;
            rest.RemoveRange(0, 3 + size);
        }

        if (checksum is not { } place) return null;
        byte[] zeroed = [.. all];
        Array.Clear(zeroed, place, 4);
        uint crc = uint.MaxValue;
        foreach (byte b in zeroed)
        {
            crc ^= b;
            for (int i = 0; i < 8; i++) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82F63B78 : crc >> 1;
        }

        return Convert.ToHexString(all[place..(place + 4)]) == $"{~crc:X8}" ? null : "Checksum";
    }

    private static bool AreWhole(List<byte> rest)
    {
        while (rest.Count >= 3 && rest.Count >= 3 + (rest[1] * 256) + rest[2])
            rest.RemoveRange(0, 3 + (rest[1] * 256) + rest[2]);
        return rest.Count == 0;
    }
}
