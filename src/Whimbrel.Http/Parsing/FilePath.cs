using System.Buffers;
using System.Text;
using System.Text.Unicode;

namespace Whimbrel.Http.Parsing;

/// <summary>
/// Converts the path of a request to a file name below a root. A path has one name or none, and no name leads upwards.
/// Ambiguous paths are rejected, and nothing is decoded twice.
/// </summary>
internal static class FilePath
{
    private static readonly SearchValues<byte> s_never = SearchValues.Create("\0\x01\x02\x03\x04\x05\x06\a\b\t\n"u8
        + "\v\f\r\x0E\x0F\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1A\x1B\x1C\x1D\x1E\x1F\x7F\\"u8);

    /// <summary>Reads a name. Returns false if it can be no file, whatever is on the disk.</summary>
    /// <param name="path">Path after the root's slash, percent-encoded, checked by the reader.</param>
    /// <param name="name">Buffer, as long as the path.</param>
    /// <param name="allowsDots">Whether names may begin with a dot.</param>
    /// <param name="isWindows">Whether the special names of Windows are rejected.</param>
    /// <param name="length">Bytes of the name. Empty, or with a slash at its end: a folder.</param>
    internal static bool TryRead(ReadOnlySpan<byte> path, Span<byte> name, bool allowsDots, bool isWindows,
        out int length)
    {
        length = 0;
        for (int at = 0; at < path.Length; at++)
        {
            byte b = path[at];
            if (b == '%')
            {
                b = (byte)((HttpBytes.HexOf(path[at + 1]) << 4) | HttpBytes.HexOf(path[at + 2]));
                at += 2;
                if (b == '/') return false; // an encoded slash does not separate, and no name contains it
            }

            name[length++] = b;
        }

        ReadOnlySpan<byte> rest = name[..length];
        if (rest.ContainsAny(s_never) || (isWindows && rest.Contains((byte)':')) || !Utf8.IsValid(rest)) return false;
        while (!rest.IsEmpty)
        {
            int slash = rest.IndexOf((byte)'/');
            ReadOnlySpan<byte> segment = slash < 0 ? rest : rest[..slash];
            if (!IsName(segment, allowsDots) || (isWindows && !IsNameOfWindows(segment))) return false;
            rest = slash < 0 ? default : rest[(slash + 1)..];
        }

        return true;
    }

    private static bool IsName(ReadOnlySpan<byte> segment, bool allowsDots)
    {
        if (segment.IsEmpty) return false;
        return segment[0] != '.' || (allowsDots && !segment.SequenceEqual("."u8) && !segment.SequenceEqual(".."u8));
    }

    // Windows removes dots and spaces at the end, and some names are devices with any extension.
    private static bool IsNameOfWindows(ReadOnlySpan<byte> segment)
    {
        if (segment[^1] is (byte)'.' or (byte)' ') return false;
        int dot = segment.IndexOf((byte)'.');
        ReadOnlySpan<byte> stem = (dot < 0 ? segment : segment[..dot]).TrimEnd((byte)' ');
        if (stem.Length == 3)
            return !(Is(stem, "con"u8) || Is(stem, "prn"u8) || Is(stem, "aux"u8) || Is(stem, "nul"u8));
        if (stem.Length == 6 && Is(stem, "conin$"u8)) return false;
        if (stem.Length == 7 && Is(stem, "conout$"u8)) return false;
        return stem.Length < 4 || !(Is(stem[..3], "com"u8) || Is(stem[..3], "lpt"u8)) || stem.Length > 5;
    }

    private static bool Is(ReadOnlySpan<byte> text, ReadOnlySpan<byte> word) => Ascii.EqualsIgnoreCase(text, word);
}
