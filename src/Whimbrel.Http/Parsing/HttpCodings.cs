using System.Text;

namespace Whimbrel.Http.Parsing;

/// <summary>Forms of a body.</summary>
internal enum HttpCoding
{
    /// <summary>As it is.</summary>
    Identity,

    Gzip,

    Brotli,
}

/// <summary>Which form of a body a client wants (RFC 9110, 12.5.3).</summary>
internal static class HttpCodings
{
    private const int Unsaid = -1;
    private const int Full = 1000;

    /// <summary>The one with the highest weight; of equal ones brotli, then gzip. As it is when neither is wanted: there is always something to read.</summary>
    /// <param name="reader">The head that was read.</param>
    /// <param name="head">Its bytes.</param>
    /// <param name="hasGzip">It can be had so.</param>
    /// <param name="hasBrotli">It can be had so.</param>
    /// <param name="refusesIdentity">The client says that it does not want it as it is.</param>
    internal static HttpCoding Choose(HttpReader reader, ReadOnlySpan<byte> head, bool hasGzip, bool hasBrotli, out bool refusesIdentity)
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
        int ofGzip = hasGzip ? Math.Max(gzip == Unsaid ? others : gzip, 0) : 0, ofBrotli = hasBrotli ? Math.Max(brotli == Unsaid ? others : brotli, 0) : 0;
        int best = Math.Max(ofGzip, ofBrotli);
        if (best == 0 || best < identity) return HttpCoding.Identity;
        return ofBrotli == best ? HttpCoding.Brotli : HttpCoding.Gzip;
    }

    /// <summary>In thousandths; what is no weight is 0, so that nobody gets a form by mistake.</summary>
    private static int WeightOf(ReadOnlySpan<byte> parameter)
    {
        if (parameter.Length < 3 || (parameter[0] | 0x20) != 'q' || parameter[1] != '=' || parameter[2] is not ((byte)'0' or (byte)'1')) return 0;
        int weight = (parameter[2] - '0') * Full;
        ReadOnlySpan<byte> digits = parameter[3..];
        if (digits.IsEmpty) return weight;
        if (digits[0] != '.' || digits.Length > 4 || digits[1..].ContainsAnyExceptInRange((byte)'0', (byte)'9')) return 0;
        int unit = Full;
        foreach (byte digit in digits[1..]) weight += (digit - '0') * (unit /= 10);
        return weight <= Full ? weight : 0;
    }
}
