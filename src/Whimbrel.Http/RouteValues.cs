using System.Runtime.CompilerServices;
using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>What the pattern of a route has taken from the path of a request: <c>request.Route["name"]</c>.</summary>
public readonly struct RouteValues
{
    private readonly HttpRequest _request;

    internal RouteValues(HttpRequest request) => _request = request;

    /// <summary>The part of the path that stands for a name, without percent signs, as UTF-8 text.</summary>
    /// <param name="name">As in the pattern.</param>
    /// <exception cref="KeyNotFoundException">The pattern has no such name.</exception>
    public string this[string name] => Encoding.UTF8.GetString(HttpText.Decode(GetBytes(name)));

    /// <summary>The same as it was sent, with percent signs.</summary>
    /// <param name="name">As in the pattern.</param>
    /// <exception cref="KeyNotFoundException">The pattern has no such name.</exception>
    public ReadOnlySpan<byte> GetBytes(string name)
    {
        string[] names = _request.Places.Names ?? [];
        int index = Array.IndexOf(names, name);
        if (index < 0) throw new KeyNotFoundException($"The route's pattern has no {{{name}}}.");
        return _request.Path.Slice(_request.Places.Starts[index], _request.Places.Lengths[index]);
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
