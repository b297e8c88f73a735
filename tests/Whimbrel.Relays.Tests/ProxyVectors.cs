using System.Buffers.Binary;
using System.Text;

namespace Whimbrel.Relays.Tests;

/// <summary>Headers as bytes, their contents, and the rule that invalid ones violate.</summary>
internal static class ProxyVectors
{
    internal const string Signature = "0D0A0D0A000D0A515549540A";

    /// <summary>Bytes, and the text of the header or the name of the fault.</summary>
    internal static TheoryData<string, string> All
    {
        get
        {
            TheoryData<string, string> all = [];
            foreach ((string line, string outcome) in Lines)
                all.Add(Convert.ToHexString(Encoding.Latin1.GetBytes(line)), outcome);
            foreach ((string hex, string outcome) in Binaries) all.Add(hex.Replace(" ", ""), outcome);
            return all;
        }
    }

    private static string Long(int length) => $"PROXY UNKNOWN {new string('x', length - 16)}\r\n";

    private static (string Line, string Outcome)[] Lines =>
    [
        ("PROXY TCP4 192.0.2.7 203.0.113.1 56324 443\r\n", "192.0.2.7:56324 to 203.0.113.1:443"),
        ("PROXY TCP4 0.0.0.0 255.255.255.255 0 65535\r\n", "0.0.0.0:0 to 255.255.255.255:65535"),
        ("PROXY TCP6 2001:db8::1 ::1 56324 443\r\n", "[2001:db8::1]:56324 to [::1]:443"),
        ("PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
            "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535 to [ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535"),
        ("PROXY TCP6 ::ffff:192.0.2.7 ::1 1 2\r\n", "[::ffff:192.0.2.7]:1 to [::1]:2"),
        ("PROXY UNKNOWN\r\n", "unknown"),
        ("PROXY UNKNOWN ffff::1 what ever \u00e9 it says\r\n", "unknown"),
        (Long(107), "unknown"),
        (Long(108), nameof(ProxyFault.TooLong)),
        (Long(109), nameof(ProxyFault.TooLong)),
        ("PROXY UNKNOWNX\r\n", nameof(ProxyFault.Fields)),
        ("PROXY \r\n", nameof(ProxyFault.Fields)),
        ("PROXY TCP4\r\n", nameof(ProxyFault.Fields)),
        ("PROXY TCP5 192.0.2.7 203.0.113.1 56324 443\r\n", nameof(ProxyFault.Fields)),
        ("PROXY tcp4 192.0.2.7 203.0.113.1 56324 443\r\n", nameof(ProxyFault.Fields)),
        ("PROXY UDP4 192.0.2.7 203.0.113.1 56324 443\r\n", nameof(ProxyFault.Fields)),
        ("PROXY TCP4  192.0.2.7 203.0.113.1 56324 443\r\n", nameof(ProxyFault.Fields)),
        ("PROXY  TCP4 192.0.2.7 203.0.113.1 56324 443\r\n", nameof(ProxyFault.Fields)),
        ("PROXY TCP4 192.0.2.7 203.0.113.1 56324 443 \r\n", nameof(ProxyFault.Fields)),
        ("PROXY TCP4 192.0.2.7 203.0.113.1 56324\r\n", nameof(ProxyFault.Fields)),
        ("PROXY TCP4 192.0.2.7 203.0.113.1 56324 443 1\r\n", nameof(ProxyFault.Fields)),
        ("PROXY TCP4\t192.0.2.7 203.0.113.1 56324 443\r\n", nameof(ProxyFault.Fields)),
        ("PROXY TCP4 192.0.2.7 203.0.113.1 56324 443\n", nameof(ProxyFault.LineEnd)),
        ("PROXY TCP4 192.0.2.7 203.0.113.1 56324 443\r\r\n", nameof(ProxyFault.LineEnd)),
        ("PROXY TCP4 192.0.2.7\n203.0.113.1 56324 443\r\n", nameof(ProxyFault.LineEnd)),
        ("PROXY UNKNOWN\rx\r\n", nameof(ProxyFault.LineEnd)),
        ("PROXY TCP4 192.0.2.256 203.0.113.1 56324 443\r\n", nameof(ProxyFault.Address)),
        ("PROXY TCP4 192.0.2.07 203.0.113.1 56324 443\r\n", nameof(ProxyFault.Address)),
        ("PROXY TCP4 192.0.2 203.0.113.1 56324 443\r\n", nameof(ProxyFault.Address)),
        ("PROXY TCP4 192.0.2.7.1 203.0.113.1 56324 443\r\n", nameof(ProxyFault.Address)),
        ("PROXY TCP4 0x7f.0.0.1 203.0.113.1 56324 443\r\n", nameof(ProxyFault.Address)),
        ("PROXY TCP4 3221225991 203.0.113.1 56324 443\r\n", nameof(ProxyFault.Address)),
        ("PROXY TCP4 ::1 203.0.113.1 56324 443\r\n", nameof(ProxyFault.Address)),
        ("PROXY TCP4 192.0.2.-7 203.0.113.1 56324 443\r\n", nameof(ProxyFault.Address)),
        ("PROXY TCP6 192.0.2.7 203.0.113.1 56324 443\r\n", nameof(ProxyFault.Address)),
        ("PROXY TCP6 fe80::1%eth0 ::1 56324 443\r\n", nameof(ProxyFault.Address)),
        ("PROXY TCP6 [::1] ::1 56324 443\r\n", nameof(ProxyFault.Address)),
        ("PROXY TCP6 ::1/128 ::1 56324 443\r\n", nameof(ProxyFault.Address)),
        ("PROXY TCP6 :::1 ::1 56324 443\r\n", nameof(ProxyFault.Address)),
        ("PROXY TCP4 localhost 203.0.113.1 56324 443\r\n", nameof(ProxyFault.Address)),
        ("PROXY TCP4 192.0.2.7 203.0.113.1 65536 443\r\n", nameof(ProxyFault.Port)),
        ("PROXY TCP4 192.0.2.7 203.0.113.1 56324 99999\r\n", nameof(ProxyFault.Port)),
        ("PROXY TCP4 192.0.2.7 203.0.113.1 56324 0443\r\n", nameof(ProxyFault.Port)),
        ("PROXY TCP4 192.0.2.7 203.0.113.1 +1 443\r\n", nameof(ProxyFault.Port)),
        ("PROXY TCP4 192.0.2.7 203.0.113.1 -1 443\r\n", nameof(ProxyFault.Port)),
        ("PROXY TCP4 192.0.2.7 203.0.113.1 1a 443\r\n", nameof(ProxyFault.Port)),
        ("PROXY TCP4 192.0.2.7 203.0.113.1 4294967297 443\r\n", nameof(ProxyFault.Port)),
        ("GET / HTTP/1.1\r\n", nameof(ProxyFault.NotAHeader)),
        ("proxy TCP4 192.0.2.7 203.0.113.1 56324 443\r\n", nameof(ProxyFault.NotAHeader)),
        (" PROXY TCP4 192.0.2.7 203.0.113.1 56324 443\r\n", nameof(ProxyFault.NotAHeader)),
        ("PROXY\r\n", nameof(ProxyFault.NotAHeader)),
        ("\r\nPROXY UNKNOWN\r\n", nameof(ProxyFault.NotAHeader)),
        ("\u0016\u0003\u0001", nameof(ProxyFault.NotAHeader)),
    ];

    private const string V4 = "C0000207 CB007101 DC04 01BB",
        V6 = "20010DB8000000000000000000000001 00000000000000000000000000000001 DC04 01BB";

    private static string Unix(string from, string to) => Path(from) + Path(to);

    private static string Path(string path) => Convert.ToHexString(Encoding.UTF8.GetBytes(path)).PadRight(216, '0');

    private static string Tls(string flags, string verify, string inner) => Part(0x20, flags + verify + inner);

    internal static string Part(byte type, string value)
    {
        value = value.Replace(" ", "");
        return $"{type:X2}{value.Length / 2:X4}{value}";
    }

    internal static string Header(string command, string family, string rest)
    {
        rest = rest.Replace(" ", "");
        return Signature + command + family + $"{rest.Length / 2:X4}" + rest;
    }

    /// <summary>Appends a checksum, computed bit by bit.</summary>
    internal static string Sealed(string hex, int change = 0)
    {
        byte[] bytes = Convert.FromHexString(hex.Replace(" ", "") + "03000400000000");
        BinaryPrimitives.WriteUInt16BigEndian(bytes.AsSpan(14), (ushort)(bytes.Length - 16));
        uint crc = uint.MaxValue;
        foreach (byte b in bytes)
        {
            crc ^= b;
            for (int i = 0; i < 8; i++) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82F63B78 : crc >> 1;
        }

        BinaryPrimitives.WriteUInt32BigEndian(bytes.AsSpan(bytes.Length - 4), ~crc ^ (uint)change);
        return Convert.ToHexString(bytes);
    }

    private static (string Hex, string Outcome)[] Binaries =>
    [
        (Header("21", "11", V4), "192.0.2.7:56324 to 203.0.113.1:443"),
        (Header("21", "12", V4), "192.0.2.7:56324 to 203.0.113.1:443"),
        (Header("21", "21", V6), "[2001:db8::1]:56324 to [::1]:443"),
        (Header("21", "22", V6), "[2001:db8::1]:56324 to [::1]:443"),
        (Header("21", "31", Unix("/run/a", "/run/b")), "/run/a to /run/b"),
        (Header("21", "32", Unix("/run/a", "/run/b")), "/run/a to /run/b"),
        (Header("21", "31", Unix("\0a", "\0b")), "@a to @b"),
        (Header("21", "31", Unix("", "")), "unknown"),
        (Header("21", "00", ""), "unknown"),
        (Header("21", "00", Part(4, "0000")), "unknown"),
        (Header("21", "00", V4), "unknown"),
        (Header("21", "00", "FF"), "unknown"),
        (Header("21", "00", new string('A', 2 * 216)), "unknown"),
        (Header("21", "01", V4), "unknown"),
        (Header("21", "02", Part(5, "01")), "unknown"),
        (Sealed(Header("21", "00", Part(5, "01"))), "unknown"),
        (Sealed(Header("21", "00", Part(5, "01")), change: 1), nameof(ProxyFault.Checksum)),
        (Header("20", "00", ""), "local"),
        (Header("20", "11", V4), "local"),
        (Header("20", "FF", "010203"), "local"),
        (Header("21", "11", V4 + Part(4, "")), "192.0.2.7:56324 to 203.0.113.1:443"),
        (Header("21", "11", V4 + Part(0xE3, "0102") + Part(2, "6578616D706C65")), "192.0.2.7:56324 to 203.0.113.1:443"),
        (Header("21", "11", V4 + Part(5, new string('0', 256))), "192.0.2.7:56324 to 203.0.113.1:443"),
        (Header("21", "11", V4 + Tls("07", "00000000", Part(0x21, "544C53"))), "192.0.2.7:56324 to 203.0.113.1:443"),
        (Sealed(Header("21", "11", V4)), "192.0.2.7:56324 to 203.0.113.1:443"),
        (Sealed(Header("21", "21", V6 + Part(4, "00FF00"))), "[2001:db8::1]:56324 to [::1]:443"),
        (Sealed(Header("21", "11", V4), change: 1), nameof(ProxyFault.Checksum)),
        (Sealed(Header("21", "11", V4), change: 1 << 31), nameof(ProxyFault.Checksum)),
        (Header("11", "11", V4), nameof(ProxyFault.Version)),
        (Header("31", "11", V4), nameof(ProxyFault.Version)),
        (Header("01", "11", V4), nameof(ProxyFault.Version)),
        (Header("22", "11", V4), nameof(ProxyFault.Command)),
        (Header("2F", "11", V4), nameof(ProxyFault.Command)),
        (Header("21", "10", V4), nameof(ProxyFault.Family)),
        (Header("21", "13", V4), nameof(ProxyFault.Family)),
        (Header("21", "03", V4), nameof(ProxyFault.Family)),
        (Header("21", "41", V4), nameof(ProxyFault.Family)),
        (Header("21", "F1", V4), nameof(ProxyFault.Family)),
        (Header("21", "11", ""), nameof(ProxyFault.TooShort)),
        (Header("21", "11", "C0000207 CB007101 DC04 01"), nameof(ProxyFault.TooShort)),
        (Header("21", "21", V4), nameof(ProxyFault.TooShort)),
        (Header("21", "31", V6), nameof(ProxyFault.TooShort)),
        (Header("21", "11", V4 + new string('0', 2 * (4096 - 16 - 12 + 1))), nameof(ProxyFault.TooLong)),
        (Header("21", "11", V4 + Part(4, new string('0', 2 * (4096 - 16 - 12 - 3)))),
            "192.0.2.7:56324 to 203.0.113.1:443"),
        (Signature + "2111FFFF", nameof(ProxyFault.TooLong)),
        (Header("21", "11", V4 + "04"), nameof(ProxyFault.Extension)),
        (Header("21", "11", V4 + "0400"), nameof(ProxyFault.Extension)),
        (Header("21", "11", V4 + "040001"), nameof(ProxyFault.Extension)),
        (Header("21", "11", V4 + "04FFFF00"), nameof(ProxyFault.Extension)),
        (Header("21", "11", V4 + Part(3, "000000")), nameof(ProxyFault.Extension)),
        (Header("21", "11", V4 + Part(3, "00000000") + Part(3, "00000000")), nameof(ProxyFault.Extension)),
        (Header("21", "11", V4 + Part(5, new string('0', 258))), nameof(ProxyFault.Extension)),
        (Header("21", "11", V4 + Part(0x20, "07000000")), nameof(ProxyFault.Extension)),
        (Header("21", "11", V4 + Tls("07", "00000000", "2100")), nameof(ProxyFault.Extension)),
        (Header("21", "11", V4 + Tls("07", "00000000", "210009")), nameof(ProxyFault.Extension)),
        (Signature.Replace("0A51", "0B51") + "21110000", nameof(ProxyFault.NotAHeader)),
        (Signature[..^2] + "0B", nameof(ProxyFault.NotAHeader)),
    ];
}
