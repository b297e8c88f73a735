using System.Runtime.CompilerServices;

namespace Whimbrel.Http;

/// <summary>Values of a route pattern in the path of a request: <c>request.Route["name"]</c>.</summary>
public readonly struct RouteValues
{
    private readonly HttpRequest _request;

    internal RouteValues(HttpRequest request) => _request = request;

    /// <summary>
    /// Decoded value of a name, as UTF-8 text. Only <c>%2F</c> stays encoded, so a slash in the text is always one of
    /// the path. The text cannot lead out of a folder it is combined with. A value that begins with a slash or a
    /// backslash, or has a segment <c>.</c> or <c>..</c>, in any encoding, throws. So does one that begins with a drive
    /// (<c>c:</c>) on Windows.
    /// </summary>
    /// <param name="name">Name, as in the pattern.</param>
    /// <exception cref="KeyNotFoundException">The pattern has no such name.</exception>
    /// <exception cref="HttpProtocolException">The value could lead out of a folder; uncaught, it becomes 404.
    /// <see cref="GetBytes"/> returns such values, too.</exception>
    public string this[string name]
    {
        get
        {
            using HttpRequest.RequestUse use = _request.Enter();
            ReadOnlySpan<byte> value = use.Exchange.RouteValue(name);
            if (!RouteText.StaysInside(value))
                throw use.Exchange.Session.Mistake(404, "The path could lead out of a folder");
            return RouteText.TextOf(value);
        }
    }

    /// <summary>Returns the value as received, percent-encoded: for an application that treats <c>%2F</c> as a slash,
    /// and to forward a path.</summary>
    /// <param name="name">Name, as in the pattern.</param>
    /// <exception cref="KeyNotFoundException">The pattern has no such name.</exception>
    public ReadOnlySpan<byte> GetBytes(string name)
    {
        using HttpRequest.RequestUse use = _request.Enter();
        return use.Exchange.RouteValue(name);
    }
}

/// <summary>Positions of the values in the path.</summary>
internal struct RoutePlaces
{
    internal string[]? Names;
    internal EightNumbers Starts;
    internal EightNumbers Lengths;
}

/// <summary>Numbers for the largest count of names in a pattern.</summary>
[InlineArray(Length)]
internal struct EightNumbers
{
    internal const int Length = 8;
    private int _first;
}
