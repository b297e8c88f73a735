using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// The cookies of a request: <c>request.Cookies["name"]</c>. They are looked for when somebody asks, where they lie; all else is in
/// <c>request[HttpField.Cookie]</c>. Anybody can send any cookie: what must not be forged has to be signed or be a random number.
/// </summary>
public readonly struct HttpCookies
{
    private const int LongestName = 256;

    private readonly HttpRequest _request;

    internal HttpCookies(HttpRequest request) => _request = request;

    /// <summary>The first cookie with this name, as it was sent, as UTF-8 text; null when there is none.</summary>
    /// <param name="name">Case counts. Up to 256 bytes.</param>
    public string? this[string name]
    {
        get
        {
            ArgumentNullException.ThrowIfNull(name);
            using HttpRequest.RequestUse use = _request.Enter();
            Span<byte> bytes = stackalloc byte[LongestName];
            return Encoding.UTF8.TryGetBytes(name, bytes, out int length) && TryGet(bytes[..length], out ReadOnlySpan<byte> value) ? Encoding.UTF8.GetString(value) : null;
        }
    }

    /// <summary>The first cookie with this name, as it was sent: with its quotes, if it has them. Allocates nothing.</summary>
    /// <param name="name">Case counts.</param>
    /// <param name="value">Valid until the request is answered.</param>
    public bool TryGet(ReadOnlySpan<byte> name, out ReadOnlySpan<byte> value)
    {
        using HttpRequest.RequestUse use = _request.Enter();
        HttpReader reader = use.Reader;
        for (int index = reader.IndexOf(HttpField.Cookie); index >= 0; index = reader.IndexOf(HttpField.Cookie, index + 1))
        {
            ReadOnlySpan<byte> rest = use.Head.ValueAt(index);
            while (!rest.IsEmpty)
            {
                int end = rest.IndexOf((byte)';');
                ReadOnlySpan<byte> pair = end < 0 ? rest : rest[..end];
                rest = end < 0 ? default : rest[(end + 1)..];
                int equals = pair.IndexOf((byte)'=');
                // Without an equals sign it has no name.
                if (equals < 0 || !HttpBytes.Trim(pair[..equals]).SequenceEqual(name)) continue;
                value = HttpBytes.Trim(pair[(equals + 1)..]);
                return true;
            }
        }

        value = default;
        return false;
    }
}
