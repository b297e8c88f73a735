using System.Runtime.CompilerServices;

namespace Whimbrel.Http;

/// <summary>What the pattern of a route has taken from the path of a request: <c>request.Route["name"]</c>.</summary>
public readonly struct RouteValues
{
    private readonly HttpRequest _request;

    internal RouteValues(HttpRequest request) => _request = request;

    /// <summary>
    /// The part of the path that stands for a name, as UTF-8 text without percent signs. <c>%2F</c> alone stays as it is, so that a slash in the text always was one in
    /// the path. The text does not lead out of a folder that it is combined with: what begins with a slash or a backslash, or has a segment <c>.</c> or <c>..</c>, however written, throws,
    /// and so does what begins with a drive (<c>c:</c>) on Windows.
    /// </summary>
    /// <param name="name">As in the pattern.</param>
    /// <exception cref="KeyNotFoundException">The pattern has no such name.</exception>
    /// <exception cref="HttpProtocolException">The value could lead out of a folder: a handler that lets it pass has answered with 404. <see cref="GetBytes"/> has such values, too.</exception>
    public string this[string name]
    {
        get
        {
            using HttpRequest.RequestUse use = _request.Enter();
            ReadOnlySpan<byte> value = use.Exchange.RouteValue(name);
            if (!RouteText.StaysInside(value)) throw use.Exchange.Session.Mistake(404, "The path could lead out of a folder");
            return RouteText.TextOf(value);
        }
    }

    /// <summary>The same as it was sent, with all percent signs: for an application that takes <c>%2F</c> for a slash, and to pass a path on.</summary>
    /// <param name="name">As in the pattern.</param>
    /// <exception cref="KeyNotFoundException">The pattern has no such name.</exception>
    public ReadOnlySpan<byte> GetBytes(string name)
    {
        using HttpRequest.RequestUse use = _request.Enter();
        return use.Exchange.RouteValue(name);
    }
}

/// <summary>Where they are in the path.</summary>
internal struct RoutePlaces
{
    internal string[]? Names;
    internal EightNumbers Starts;
    internal EightNumbers Lengths;
}

/// <summary>As many as a pattern may have names.</summary>
[InlineArray(Length)]
internal struct EightNumbers
{
    internal const int Length = 8;
    private int _first;
}
