using System.Buffers;
using System.Buffers.Text;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Whimbrel.Relays;

// Version 1: one line of ASCII.
internal static class ProxyLine
{
    // The longest line with its CR LF: two IPv6 addresses of 39 characters. UNKNOWN may be followed by any text within
    // it.
    private const int Limit = 107;

    private static readonly SearchValues<byte> s_ends = SearchValues.Create("\r\n"u8);
    private static readonly SearchValues<byte> s_inAddress = SearchValues.Create("0123456789abcdefABCDEF:."u8);

    internal static ReadOnlySpan<byte> Signature => "PROXY "u8;

    internal static OperationStatus Read(ReadOnlySpan<byte> bytes, out ProxyHeader? header, out int length,
        out ProxyFault fault)
    {
        (header, length) = (null, 0);
        fault = FindEnd(bytes, out int end);
        if (fault != ProxyFault.None) return OperationStatus.InvalidData;
        if (end < 0) return OperationStatus.NeedMoreData;
        length = end + 2;
        fault = ReadFields(bytes[Signature.Length..end], out EndPoint? source, out EndPoint? destination);
        if (fault != ProxyFault.None)
        {
            length = 0;
            return OperationStatus.InvalidData;
        }

        header = new ProxyHeader(1, false, source, destination, []);
        return OperationStatus.Done;
    }

    internal static void Write(ProxyHeader header, IBufferWriter<byte> output)
    {
        if (header.IsLocal || header.Extensions.Count > 0)
            throw new InvalidOperationException(
                "A PROXY line has no word for LOCAL and no extensions: write version 2.");
        string line = "PROXY UNKNOWN\r\n";
        if (header is { Source: IPEndPoint source, Destination: IPEndPoint destination })
        {
            (IPAddress from, IPAddress to) = ProxyBinary.SameFamily(source.Address, destination.Address);
            string family = from.AddressFamily == AddressFamily.InterNetworkV6 ? "TCP6" : "TCP4";
            line = string.Create(CultureInfo.InvariantCulture,
                $"PROXY {family} {from} {to} {source.Port} {destination.Port}\r\n");
        }

        output.Write(Encoding.ASCII.GetBytes(line));
    }

    // The end is the first CR LF within the limit, or -1 while it has not been received.
    private static ProxyFault FindEnd(ReadOnlySpan<byte> bytes, out int end)
    {
        end = -1;
        ReadOnlySpan<byte> line = bytes[..Math.Min(bytes.Length, Limit)];
        int at = line.IndexOfAny(s_ends);
        if (at < 0) return line.Length == Limit ? ProxyFault.TooLong : ProxyFault.None;
        if (line[at] == '\n') return ProxyFault.LineEnd;
        if (at == Limit - 1) return ProxyFault.TooLong;
        if (at + 1 == line.Length) return ProxyFault.None;
        if (line[at + 1] != '\n') return ProxyFault.LineEnd;
        end = at;
        return ProxyFault.None;
    }

    private static ProxyFault ReadFields(ReadOnlySpan<byte> line, out EndPoint? source, out EndPoint? destination)
    {
        source = destination = null;

        // The specification: the bytes after UNKNOWN are ignored. They need not be text.
        if (line.SequenceEqual("UNKNOWN"u8) || line.StartsWith("UNKNOWN "u8)) return ProxyFault.None;
        Span<Range> fields = stackalloc Range[6];
        if (line.Split(fields) != 5) return ProxyFault.Fields;
        bool isV6 = line[fields[0]].SequenceEqual("TCP6"u8);
        if (!isV6 && !line[fields[0]].SequenceEqual("TCP4"u8)) return ProxyFault.Fields;
        for (int i = 1; i < 5; i++)
        {
            if (line[fields[i]].IsEmpty) return ProxyFault.Fields;
        }

        if (!TryAddress(line[fields[1]], isV6, out IPAddress? from)
            || !TryAddress(line[fields[2]], isV6, out IPAddress? to))
            return ProxyFault.Address;
        if (!TryPort(line[fields[3]], out int fromPort) || !TryPort(line[fields[4]], out int toPort))
            return ProxyFault.Port;
        source = new IPEndPoint(from!, fromPort);
        destination = new IPEndPoint(to!, toPort);
        return ProxyFault.None;
    }

    private static int Split(this ReadOnlySpan<byte> line, Span<Range> fields)
    {
        int count = 0, start = 0;
        while (count < fields.Length)
        {
            int space = line[start..].IndexOf((byte)' ');
            int end = space < 0 ? line.Length : start + space;
            fields[count++] = start..end;
            if (space < 0) break;
            start = end + 1;
        }

        return count;
    }

    // .NET parses more forms than the specification: a zone, brackets, octal, hexadecimal, fewer than four numbers.
    private static bool TryAddress(ReadOnlySpan<byte> text, bool isV6, out IPAddress? address)
    {
        address = null;
        if (text.ContainsAnyExcept(s_inAddress)) return false;
        if (isV6)
            return text.Contains((byte)':') && IPAddress.TryParse(text, out address)
                && address.AddressFamily == AddressFamily.InterNetworkV6;
        Span<byte> numbers = stackalloc byte[4];
        for (int i = 0; i < 4; i++)
        {
            int dot = text.IndexOf((byte)'.');
            if (i == 3 ? dot >= 0 : dot < 0) return false;
            ReadOnlySpan<byte> number = i == 3 ? text : text[..dot];
            if (!TryNumber(number, byte.MaxValue, out int value)) return false;
            numbers[i] = (byte)value;
            if (i < 3) text = text[(dot + 1)..];
        }

        address = new IPAddress(numbers);
        return true;
    }

    private static bool TryPort(ReadOnlySpan<byte> text, out int port) => TryNumber(text, ushort.MaxValue, out port);

    private static bool TryNumber(ReadOnlySpan<byte> text, int most, out int value)
    {
        value = 0;
        if (text.IsEmpty || text.Length > 5 || (text[0] == '0' && text.Length > 1)) return false;
        return Utf8Parser.TryParse(text, out value, out int used) && used == text.Length
            && !text.ContainsAnyExceptInRange((byte)'0', (byte)'9') && value <= most;
    }
}
