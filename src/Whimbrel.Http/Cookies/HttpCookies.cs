using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// Cookies of a request: <c>request.Cookies["name"]</c>. They are parsed in place on access; the raw field is
/// <c>request[HttpField.Cookie]</c>. A client can send any cookie, so a value that must not be forged must be signed or
/// a random number.
/// </summary>
public readonly struct HttpCookies
{
    private const int LongestName = 256;

    private readonly HttpRequest _request;

    internal HttpCookies(HttpRequest request) => _request = request;

    /// <summary>Value of the first cookie with this name, as received, as UTF-8 text; null if there is none.</summary>
    /// <param name="name">Case-sensitive name, up to 256 bytes.</param>
    public string? this[string name]
    {
        get
        {
            ArgumentNullException.ThrowIfNull(name);
            using HttpRequest.RequestUse use = _request.Enter();
            Span<byte> bytes = stackalloc byte[LongestName];
            return Encoding.UTF8.TryGetBytes(name, bytes, out int length)
                && TryGet(bytes[..length], out ReadOnlySpan<byte> value) ? Encoding.UTF8.GetString(value) : null;
        }
    }

    /// <summary>Gets the first cookie with this name, as received: with its quotes, if it has them. Does not
    /// allocate.</summary>
    /// <param name="name">Case-sensitive name.</param>
    /// <param name="value">Value. Valid until the response.</param>
    public bool TryGet(ReadOnlySpan<byte> name, out ReadOnlySpan<byte> value)
    {
        using HttpRequest.RequestUse use = _request.Enter();
        HttpReader reader = use.Reader;
        for (int index = reader.IndexOf(HttpField.Cookie); index >= 0;
            index = reader.IndexOf(HttpField.Cookie, index + 1))
        {
            ReadOnlySpan<byte> rest = use.Head.ValueAt(index);
            while (!rest.IsEmpty)
            {
                int end = rest.IndexOf((byte)';');
                ReadOnlySpan<byte> pair = end < 0 ? rest : rest[..end];
                rest = end < 0 ? default : rest[(end + 1)..];
                int equals = pair.IndexOf((byte)'=');
                // A pair without an equals sign has no name.
                if (equals < 0 || !HttpBytes.Trim(pair[..equals]).SequenceEqual(name)) continue;
                value = HttpBytes.Trim(pair[(equals + 1)..]);
                return true;
            }
        }

        value = default;
        return false;
    }
}
