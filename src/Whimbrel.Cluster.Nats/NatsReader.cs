using System.Buffers.Text;
using System.Text;

namespace Whimbrel.Clusters;

/// <summary>
/// Parser of the NATS protocol, without I/O: bytes in, one item out. Lines end with CR LF. A payload has the length
/// given in its line and also ends with CR LF.
/// </summary>
internal static class NatsReader
{
    /// <summary>Maximum length of a line other than INFO: the servers' own default for received lines.</summary>
    internal const int MostLineBytes = 4096;

    /// <summary>Maximum length of an INFO, which names the servers of a cluster and certificates.</summary>
    internal const int MostInfoBytes = 64 * 1024;

    private const int MostShownBytes = 60;

    /// <summary>Reads the first item.</summary>
    /// <param name="input">Bytes from the beginning of an item.</param>
    /// <param name="mostPayload">Maximum length of payload and headers. Larger messages are not assembled.</param>
    internal static NatsItem Read(ReadOnlySpan<byte> input, int mostPayload)
    {
        int most = IsInfo(input) ? MostInfoBytes : MostLineBytes;
        int end = input.Length > most ? input[..most].IndexOf((byte)'\n') : input.IndexOf((byte)'\n');
        if (end < 0) return input.Length >= most ? Malformed(input) : new NatsItem { More = input.Length + 1 };
        if (end == 0 || input[end - 1] != '\r') return Malformed(input[..end]);
        ReadOnlySpan<byte> line = input[..(end - 1)], rest = line, word = NextWord(ref rest);
        int length = end + 1;
        // Case is ignored, because the protocol allows it.
        if (Is(word, "MSG"u8)) return ReadMessage(input, line, rest, length, mostPayload, hasHeaders: false);
        if (Is(word, "HMSG"u8)) return ReadMessage(input, line, rest, length, mostPayload, hasHeaders: true);
        if (Is(word, "PING"u8)) return new NatsItem { Kind = NatsItemKind.Ping, Length = length };
        if (Is(word, "PONG"u8)) return new NatsItem { Kind = NatsItemKind.Pong, Length = length };
        if (Is(word, "+OK"u8)) return new NatsItem { Kind = NatsItemKind.Ok, Length = length };
        if (Is(word, "INFO"u8))
            return new NatsItem { Kind = NatsItemKind.Info, Length = length, Body = rest.Trim((byte)' ') };
        return Is(word, "-ERR"u8)
            ? new NatsItem { Kind = NatsItemKind.Error, Length = length, Body = rest.Trim(" '"u8) }
            : Malformed(line);
    }

    // MSG subject sid [reply] bytes, and HMSG subject sid [reply] header-bytes all-bytes.
    private static NatsItem ReadMessage(ReadOnlySpan<byte> input, ReadOnlySpan<byte> line, ReadOnlySpan<byte> rest,
        int length, int mostPayload, bool hasHeaders)
    {
        ReadOnlySpan<byte> subject = NextWord(ref rest), id = NextWord(ref rest), first = NextWord(ref rest),
            second = NextWord(ref rest), third = NextWord(ref rest);
        // A reply subject may precede the lengths. The last word is the total length, the word before it that of the
        // headers.
        ReadOnlySpan<byte> bytes = !third.IsEmpty ? third : !second.IsEmpty ? second : first,
            headerBytes = !third.IsEmpty ? second : first;
        int words = 3 + (second.IsEmpty ? 0 : 1) + (third.IsEmpty ? 0 : 1), least = hasHeaders ? 4 : 3, headers = 0;
        if (subject.IsEmpty || words < least || words > least + 1 || !NextWord(ref rest).IsEmpty)
            return Malformed(line);
        if (!TryNumber(id, out ulong subscription) || !TryCount(bytes, out int all)
            || (hasHeaders && !TryCount(headerBytes, out headers)) || headers > all)
            return Malformed(line);
        if (all > mostPayload)
            return new NatsItem
            {
                Kind = NatsItemKind.TooLarge,
                Length = length,
                More = all + 2,
                Subscription = subscription
            };
        if (input.Length - length < all + 2) return new NatsItem { More = length + all + 2 };
        ReadOnlySpan<byte> payload = input.Slice(length, all);
        if (!input.Slice(length + all, 2).SequenceEqual("\r\n"u8)) return Malformed(line);
        return new NatsItem
        {
            Kind = NatsItemKind.Message,
            Length = length + all + 2,
            Subscription = subscription,
            Subject = subject,
            Headers = payload[..headers],
            Body = payload[headers..]
        };
    }

    private static NatsItem Malformed(ReadOnlySpan<byte> line) =>
        new() { Kind = NatsItemKind.Malformed, Body = line.Length > MostShownBytes ? line[..MostShownBytes] : line };

    private static bool IsInfo(ReadOnlySpan<byte> input) =>
        input.Length >= 5 && Is(input[..4], "INFO"u8) && input[4] is (byte)' ' or (byte)'\t';

    private static bool Is(ReadOnlySpan<byte> word, ReadOnlySpan<byte> name) =>
        word.SequenceEqual(name) || Ascii.EqualsIgnoreCase(word, name);

    private static ReadOnlySpan<byte> NextWord(scoped ref ReadOnlySpan<byte> rest)
    {
        rest = rest.TrimStart(" \t"u8);
        int end = rest.IndexOfAny((byte)' ', (byte)'\t');
        ReadOnlySpan<byte> word = end < 0 ? rest : rest[..end];
        rest = rest[word.Length..];
        return word;
    }

    private static bool TryNumber(ReadOnlySpan<byte> text, out ulong number) =>
        Utf8Parser.TryParse(text, out number, out int used) && used == text.Length && text.Length > 0
        && char.IsAsciiDigit((char)text[0]);

    // Nine digits at most, so that additions cannot overflow.
    private static bool TryCount(ReadOnlySpan<byte> text, out int count)
    {
        bool isNumber = TryNumber(text, out ulong number) && text.Length <= 9;
        count = isNumber ? (int)number : 0;
        return isNumber;
    }
}
