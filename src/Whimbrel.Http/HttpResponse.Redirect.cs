using System.Text;

namespace Whimbrel.Http;

// Answers that lead elsewhere.
public readonly partial struct HttpResponse
{
    /// <summary>Answers with the place where the client finds what it wants, and no body.</summary>
    /// <param name="location">
    /// A path (<c>/users/7</c>) or an address. Spaces, and what is no ASCII, are sent with percent signs. Part of a request only after a look at it: <c>//other.example</c> leads to another host.
    /// </param>
    /// <param name="status">
    /// 302 (for now) and 301 (for good): clients go on with GET. 303: with GET, whatever the request was. 307 (for now) and 308 (for good): with the same method and body.
    /// </param>
    /// <exception cref="ArgumentException">The location is empty or has control characters: it could become another field.</exception>
    /// <exception cref="ArgumentOutOfRangeException">The status is none of these.</exception>
    /// <exception cref="InvalidOperationException">There is an answer already.</exception>
    public void Redirect(string location, int status = 302)
    {
        ArgumentException.ThrowIfNullOrEmpty(location);
        if (status is not (301 or 302 or 303 or 307 or 308)) throw new ArgumentOutOfRangeException(nameof(status), status, "301, 302, 303, 307 or 308 is possible.");
        Add("Location", EscapeLocation(location));
        Empty(status);
    }

    private static string EscapeLocation(string location)
    {
        if (location.AsSpan().IndexOfAnyExceptInRange('!', '~') < 0) return location;
        StringBuilder escaped = new();
        foreach (byte b in Encoding.UTF8.GetBytes(location))
        {
            if (b is > (byte)' ' and < 0x7F or < (byte)' ' or 0x7F) escaped.Append((char)b); // what is no text is refused with the field
            else escaped.Append(System.Globalization.CultureInfo.InvariantCulture, $"%{b:X2}");
        }

        return escaped.ToString();
    }
}
