using System.Globalization;
using System.Text;
using System.Text.RegularExpressions;
using Whimbrel.Clusters;

namespace Whimbrel.Tests.Redis;

// RESP as its specification is written, recursive and with strings, to compare RespReader with. Returns a value as
// text; null if more bytes are needed.
internal sealed class SlowRespReader(string text, int mostBulk)
{
    private int _at;
    private int _elements = 1;

    internal int Length => _at;

    internal string? Read(int depth = 0)
    {
        if (_at == text.Length) return null;
        char type = text[_at];
        if (!"+-:$*_,#!=(%~>|".Contains(type, StringComparison.Ordinal)) throw new FormatException("type");
        int end = text.IndexOf('\n', _at);
        if (end - _at >= RespReader.MostLineBytes || (end < 0 && text.Length - _at >= RespReader.MostLineBytes))
            throw new FormatException("long line");
        if (end < 0) return null;
        string line = text[(_at + 1)..end];
        if (!line.EndsWith('\r') || line.IndexOf('\r', StringComparison.Ordinal) != line.Length - 1)
            throw new FormatException("line end");
        line = line[..^1];
        _at = end + 1;
        switch (type)
        {
            case '+' or '-': return $"{type}{line}";
            case ':' when Regex.IsMatch(line, "^[+-]?[0-9]{1,19}$", RegexOptions.CultureInvariant)
                && long.TryParse(line, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out _):
                return $":{line}";
            case '(' when Regex.IsMatch(line, "^[+-]?[0-9]+$", RegexOptions.CultureInvariant): return $"({line}";
            case ',' when line is "inf" or "-inf" or "nan" || Regex.IsMatch(line,
                @"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$", RegexOptions.CultureInvariant):
                return $",{line}";
            case '#' when line is "t" or "f": return $"#{line}";
            case '_' when line.Length == 0: return "_";
            case '$' or '*' when line == "-1": return "_";
            case '$' or '!' or '=': return Sized(type, Count(line));
            case '*' or '~' or '>' or '%': return Several(type, Count(line) * (type == '%' ? 2 : 1), depth);
            case '|': return Several(type, Count(line) * 2, depth) is null ? null : Read(depth);
            default: throw new FormatException(line);
        }
    }

    private static int Count(string line) => Regex.IsMatch(line, "^[0-9]{1,9}$", RegexOptions.CultureInvariant)
        ? int.Parse(line, CultureInfo.InvariantCulture)
        : throw new FormatException(line);

    private string? Sized(char type, int length)
    {
        if (length > mostBulk) throw new FormatException("large");
        if (_at + length + 2 > text.Length) return null;
        string body = text.Substring(_at, length);
        if (text.Substring(_at + length, 2) != "\r\n" || (type == '=' && (length < 4 || body[3] != ':')))
            throw new FormatException("body");
        _at += length + 2;
        return $"{(type == '!' ? '-' : type)}{body}";
    }

    private string? Several(char type, int count, int depth)
    {
        _elements += count;
        if (_elements > RespReader.MostElements || (count > 0 && depth == RespReader.MostDepth))
            throw new FormatException("limit");
        StringBuilder all = new($"{type}[");
        for (int i = 0; i < count; i++)
        {
            if (Read(depth + 1) is not { } each) return null;
            all.Append(each).Append('|');
        }

        return all.Append(']').ToString();
    }
}
