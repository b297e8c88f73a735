using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// Decodes parts of a path to text that cannot lead out of a folder: <c>Path.Combine(root, value)</c> stays below the
/// root. A value with a segment <c>..</c> (also as <c>%2e%2e</c>, also with backslashes) is rejected, and <c>%2F</c>
/// stays encoded.
/// </summary>
internal static class RouteText
{
    private const int OnStack = 256;
    private static readonly bool s_isWindows = OperatingSystem.IsWindows();

    /// <summary>Returns whether a value, as received, stays inside a folder it is combined with.</summary>
    internal static bool StaysInside(ReadOnlySpan<byte> value) => StaysInside(value, s_isWindows);

    /// <summary>Returns the same for a given operating system.</summary>
    internal static bool StaysInside(ReadOnlySpan<byte> rest, bool isWindows)
    {
        // Fast path: most values have no character that matters below.
        if (rest.IndexOfAny((byte)'%', (byte)'\\') < 0 && !isWindows) return StaysInsidePlain(rest, isWindows);
        if (rest.Length > OnStack) return StaysInsidePlain(Decode(rest, new byte[rest.Length]), isWindows);
        Span<byte> room = stackalloc byte[OnStack];
        return StaysInsidePlain(Decode(rest, room), isWindows);
    }

    private static bool StaysInsidePlain(ReadOnlySpan<byte> rest, bool isWindows)
    {
        if (rest.IsEmpty) return true;
        // Path.Combine ignores the root for these.
        if (rest[0] is (byte)'/' or (byte)'\\') return false;
        if (isWindows && rest.Length > 1 && rest[1] == ':' && char.IsAsciiLetter((char)rest[0])) return false;
        while (true)
        {
            int end = rest.IndexOfAny((byte)'/', (byte)'\\');
            ReadOnlySpan<byte> segment = end < 0 ? rest : rest[..end];
            if (segment.SequenceEqual("."u8) || segment.SequenceEqual(".."u8)
                || (isWindows && IsDotsOfWindows(segment)))
                return false;
            if (end < 0) return true;
            rest = rest[(end + 1)..];
        }
    }

    // Windows removes trailing dots and spaces of a name.
    private static bool IsDotsOfWindows(ReadOnlySpan<byte> segment) =>
        !segment.IsEmpty && !segment.ContainsAnyExcept((byte)'.', (byte)' ');

    /// <summary>Decodes to text, except <c>%2F</c>, so that a slash always separates.</summary>
    internal static string TextOf(ReadOnlySpan<byte> value)
    {
        if (!value.Contains((byte)'%')) return Encoding.UTF8.GetString(value);
        return Encoding.UTF8.GetString(
            value.Length <= OnStack ? Decode(value, stackalloc byte[OnStack]) : Decode(value, new byte[value.Length]));
    }

    private static ReadOnlySpan<byte> Decode(ReadOnlySpan<byte> text, Span<byte> plain)
    {
        int length = 0;
        for (int at = 0; at < text.Length; at++)
        {
            byte b = text[at];
            if (b == '%')
            {
                byte meant = (byte)((HttpBytes.HexOf(text[at + 1]) << 4) | HttpBytes.HexOf(text[at + 2]));
                if (meant != '/')
                {
                    b = meant;
                    at += 2;
                }
            }

            plain[length++] = b;
        }

        return plain[..length];
    }
}
