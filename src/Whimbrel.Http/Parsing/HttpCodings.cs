using System.Text;

namespace Whimbrel.Http.Parsing;

/// <summary>Content codings.</summary>
internal enum HttpCoding
{
    /// <summary>Uncompressed.</summary>
    Identity,

    Gzip,

    Brotli,
}

/// <summary>Choice of the content coding by Accept-Encoding (RFC 9110, 12.5.3).</summary>
internal static class HttpCodings
{
    private const int Unsaid = -1;
    private const int Full = 1000;

    /// <summary>Returns the coding with the highest weight; at equal weights brotli, then gzip. Identity if neither is
    /// wanted, so that there is always a body.</summary>
    /// <param name="reader">Reader of the head.</param>
    /// <param name="head">Bytes of the head.</param>
    /// <param name="hasGzip">Whether gzip is available.</param>
    /// <param name="hasBrotli">Whether brotli is available.</param>
    /// <param name="refusesIdentity">Whether the client refuses identity.</param>
    internal static HttpCoding Choose(HttpReader reader, ReadOnlySpan<byte> head, bool hasGzip, bool hasBrotli,
        out bool refusesIdentity)
    {
        refusesIdentity = false;
        int index = reader.IndexOf(HttpField.AcceptEncoding);
        if (index < 0) return HttpCoding.Identity;
        int gzip = Unsaid, brotli = Unsaid, identity = Unsaid, others = Unsaid;
        for (; index >= 0; index = reader.IndexOf(HttpField.AcceptEncoding, index + 1))
        {
            ref readonly HttpFieldPlace place = ref reader[index];
            ReadOnlySpan<byte> list = head.Slice(place.ValueStart, place.ValueLength);
            while (HttpBytes.TryNextElement(ref list, out ReadOnlySpan<byte> element))
            {
                int semicolon = element.IndexOf((byte)';');
                ReadOnlySpan<byte> name = semicolon < 0 ? element : HttpBytes.Trim(element[..semicolon]);
                int weight = semicolon < 0 ? Full : WeightOf(HttpBytes.Trim(element[(semicolon + 1)..]));
                if (Ascii.EqualsIgnoreCase(name, "gzip"u8) || Ascii.EqualsIgnoreCase(name, "x-gzip"u8)) gzip = weight;
                else if (Ascii.EqualsIgnoreCase(name, "br"u8)) brotli = weight;
                else if (Ascii.EqualsIgnoreCase(name, "identity"u8)) identity = weight;
                else if (name.SequenceEqual("*"u8)) others = weight;
            }
        }

        refusesIdentity = identity == 0 || (identity == Unsaid && others == 0);
        int ofGzip = hasGzip ? Math.Max(gzip == Unsaid ? others : gzip, 0) : 0,
            ofBrotli = hasBrotli ? Math.Max(brotli == Unsaid ? others : brotli, 0) : 0;
        int best = Math.Max(ofGzip, ofBrotli);
        if (best == 0 || best < identity) return HttpCoding.Identity;
        return ofBrotli == best ? HttpCoding.Brotli : HttpCoding.Gzip;
    }

    /// <summary>Parses a weight in thousandths. An invalid one is 0, so that no coding is chosen by mistake.</summary>
    private static int WeightOf(ReadOnlySpan<byte> parameter)
    {
        if (parameter.Length < 3 || (parameter[0] | 0x20) != 'q' || parameter[1] != '='
            || parameter[2] is not ((byte)'0' or (byte)'1'))
            return 0;
        int weight = (parameter[2] - '0') * Full;
        ReadOnlySpan<byte> digits = parameter[3..];
        if (digits.IsEmpty) return weight;
        if (digits[0] != '.' || digits.Length > 4 || digits[1..].ContainsAnyExceptInRange((byte)'0', (byte)'9'))
            return 0;
        int unit = Full;
        foreach (byte digit in digits[1..]) weight += (digit - '0') * (unit /= 10);
        return weight <= Full ? weight : 0;
    }
}
