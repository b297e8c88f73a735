using System.Text;

namespace Whimbrel.Http;

// Redirect responses.
public readonly partial struct HttpResponse
{
    /// <summary>Responds with a redirect, without a body.</summary>
    /// <param name="location">
    /// Path (<c>/users/7</c>) or URL. Spaces and non-ASCII characters are percent-encoded. Check it before it contains
    /// part of a request: <c>//other.example</c> leads to another host.
    /// </param>
    /// <param name="status">
    /// 302 (temporary, the default) or 301 (permanent): clients continue with GET. 303: clients continue with GET for
    /// any method. 307 (temporary) or 308 (permanent): clients repeat method and body.
    /// </param>
    /// <exception cref="ArgumentException">The location is empty or has control characters, which could form another
    /// field.</exception>
    /// <exception cref="ArgumentOutOfRangeException">The status is another one.</exception>
    /// <exception cref="InvalidOperationException">A response was already given.</exception>
    public void Redirect(string location, int status = 302)
    {
        ArgumentException.ThrowIfNullOrEmpty(location);
        if (status is not (301 or 302 or 303 or 307 or 308))
            throw new ArgumentOutOfRangeException(nameof(status), status, "301, 302, 303, 307 or 308 is possible.");
        Add("Location", EscapeLocation(location));
        Empty(status);
    }

    private static string EscapeLocation(string location)
    {
        if (location.AsSpan().IndexOfAnyExceptInRange('!', '~') < 0) return location;
        StringBuilder escaped = new();
        foreach (byte b in Encoding.UTF8.GetBytes(location))
        {
            // control characters: rejected later
            if (b is > (byte)' ' and < 0x7F or < (byte)' ' or 0x7F) escaped.Append((char)b);
            else escaped.Append(System.Globalization.CultureInfo.InvariantCulture, $"%{b:X2}");
        }

        return escaped.ToString();
    }
}
