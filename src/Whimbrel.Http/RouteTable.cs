using System.Text;
using Whimbrel.Http.Files;

namespace Whimbrel.Http;

/// <summary>
/// The routes of a server as one tree of path segments. A segment is a text, a <c>{name}</c> that stands for any one segment, or, last,
/// a <c>{*name}</c> for all that is left. Text goes before names, names before the rest; a path that fits one of them with another
/// method goes on looking. Each place of the tree is seen once at most for a request.
/// </summary>
internal sealed class RouteTable
{
    private const int LongestText = 256;

    private readonly Node _root = new();
    private volatile bool _isFrozen;

    /// <summary>A handler, either of the two kinds, or a folder of files; with its pattern, and with method and pattern for messages.</summary>
    internal sealed record Route(Action<HttpRequest, HttpResponse>? OnLoop, Func<HttpRequest, HttpResponse, CancellationToken, ValueTask>? Awaitable, FileSite? Site, string[] Names, string Pattern, string Text);

    /// <summary>What was found for a request.</summary>
    internal readonly record struct Found(Route? Route, HttpVerb Verb, int Allowed)
    {
        internal HttpBodyMode Mode => Route switch
        {
            null or { Site: not null } => HttpBodyMode.Skip,
            { OnLoop: null } => HttpBodyMode.Stream,
            _ => HttpBodyMode.Buffer,
        };

        /// <summary>There is no handler: says so, and what there is.</summary>
        internal void Refuse(HttpResponse response)
        {
            if (Verb == HttpVerb.Other)
            {
                response.Fail(501);
                return;
            }

            if (Allowed == 0)
            {
                response.Fail(404);
                return;
            }

            response.Add("Allow", AllowOf(Allowed));
            if (Verb == HttpVerb.Options) response.Empty(204);
            else response.Fail(405);
        }
    }

    // ------------------------------------------------------------------ building

    internal void Add(HttpVerb verb, string pattern, Action<HttpRequest, HttpResponse>? onLoop, Func<HttpRequest, HttpResponse, CancellationToken, ValueTask>? awaitable, FileSite? site = null)
    {
        ArgumentNullException.ThrowIfNull(pattern);
        if (_isFrozen) throw new InvalidOperationException("Routes are added before the first connection.");
        if (verb == HttpVerb.Other || !Enum.IsDefined(verb)) throw new ArgumentOutOfRangeException(nameof(verb), verb, "A route has a method with a number.");
        if (!pattern.StartsWith('/')) throw new ArgumentException($"A pattern begins with a slash: {pattern}", nameof(pattern));
        List<string> names = [];
        Node node = _root;
        string[] segments = pattern[1..].Split('/');
        for (int i = 0; i < segments.Length; i++) node = ChildFor(node, segments[i], i == segments.Length - 1, names, pattern);
        if (names.Count > EightNumbers.Length) throw new ArgumentException($"A pattern has up to {EightNumbers.Length} names: {pattern}", nameof(pattern));
        if (names.Distinct().Count() < names.Count) throw new ArgumentException($"A name stands twice in a pattern: {pattern}", nameof(pattern));
        node.Routes ??= new Route?[(int)HttpVerb.Patch + 1];
        if (node.Routes[(int)verb] is not null) throw new ArgumentException($"There is a route for {verb} {pattern} already.", nameof(pattern));
        node.Routes[(int)verb] = new Route(onLoop, awaitable, site, [.. names], pattern, $"{verb.ToString().ToUpperInvariant()} {pattern}");
    }

    private static Node ChildFor(Node node, string segment, bool isLast, List<string> names, string pattern)
    {
        if (!segment.StartsWith('{') || !segment.EndsWith('}'))
        {
            if (segment.AsSpan().IndexOfAny('{', '}') >= 0) throw new ArgumentException($"A name fills its segment: {pattern}", nameof(pattern));
            return node.Text(Encoding.UTF8.GetBytes(segment));
        }

        bool isRest = segment.StartsWith("{*", StringComparison.Ordinal);
        string name = segment[(isRest ? 2 : 1)..^1];
        if (name.Length == 0) throw new ArgumentException($"A name is empty: {pattern}", nameof(pattern));
        if (isRest && !isLast) throw new ArgumentException($"{{*name}} is the last segment: {pattern}", nameof(pattern));
        names.Add(name);
        return isRest ? node.Rest ??= new Node() : node.Any ??= new Node();
    }

    // ------------------------------------------------------------------ finding

    /// <summary>Looks for the handler, and notes in the request where the names of its pattern are.</summary>
    internal Found Find(HttpVerb verb, HttpRequest request)
    {
        _isFrozen = true;
        ReadOnlySpan<byte> path = request.Path;
        if (path.IsEmpty) return new Found(null, verb, All);
        int allowed = 0;
        Route? route = Walk(_root, path, 1, 0, verb, ref allowed, ref request.Places);
        if (route is not null) request.Places.Names = route.Names;
        return new Found(route, verb, allowed);
    }

    private const int All = (1 << (int)HttpVerb.Get) | (1 << (int)HttpVerb.Head) | (1 << (int)HttpVerb.Options);

    private static Route? Walk(Node node, ReadOnlySpan<byte> path, int start, int names, HttpVerb verb, ref int allowed, ref RoutePlaces places)
    {
        if (start > path.Length) return node.RouteFor(verb, ref allowed);
        int length = path[start..].IndexOf((byte)'/');
        int end = length < 0 ? path.Length : start + length;
        ReadOnlySpan<byte> segment = path[start..end];
        if (node.Find(segment) is { } text && Walk(text, path, end + 1, names, verb, ref allowed, ref places) is { } byText) return byText;
        // An empty segment is not a value.
        if (node.Any is { } any && end > start)
        {
            Route? byName = Walk(any, path, end + 1, names + 1, verb, ref allowed, ref places);
            if (byName is not null)
            {
                places.Starts[names] = start;
                places.Lengths[names] = end - start;
                return byName;
            }
        }

        if (node.Rest?.RouteFor(verb, ref allowed) is not { } rest) return null;
        places.Starts[names] = start;
        places.Lengths[names] = path.Length - start;
        return rest;
    }

    private static string AllowOf(int allowed)
    {
        List<string> verbs = [];
        for (HttpVerb verb = HttpVerb.Get; verb <= HttpVerb.Patch; verb++)
        {
            if ((allowed & (1 << (int)verb)) != 0) verbs.Add(verb.ToString().ToUpperInvariant());
        }

        return string.Join(", ", verbs);
    }

    /// <summary>A place in the tree.</summary>
    private sealed class Node
    {
        private readonly List<(byte[] Segment, Node Node)> _texts = [];

        internal Node? Any { get; set; }

        internal Node? Rest { get; set; }

        internal Route?[]? Routes { get; set; }

        internal Node Text(byte[] segment)
        {
            if (Find(segment) is { } known) return known;
            Node node = new();
            _texts.Add((segment, node));
            return node;
        }

        internal Node? Find(ReadOnlySpan<byte> segment)
        {
            // Percent signs stand for what they stand for, but a slash that is written so divides nothing.
            bool isShort = segment.Length <= LongestText && segment.Contains((byte)'%');
            Span<byte> room = stackalloc byte[isShort ? segment.Length : 0];
            ReadOnlySpan<byte> plain = isShort ? HttpText.Decode(segment, room) : HttpText.Decode(segment);
            foreach ((byte[] text, Node node) in _texts)
            {
                if (plain.SequenceEqual(text)) return node;
            }

            return null;
        }

        /// <summary>The handler for a method; HEAD has that of GET. Notes which methods there are.</summary>
        internal Route? RouteFor(HttpVerb verb, ref int allowed)
        {
            if (Routes is not { } routes) return null;
            Route? route = routes[(int)verb] ?? (verb == HttpVerb.Head ? routes[(int)HttpVerb.Get] : null);
            if (route is not null) return route;
            for (int i = 1; i < routes.Length; i++)
            {
                if (routes[i] is not null) allowed |= 1 << i;
            }

            allowed |= 1 << (int)HttpVerb.Options;
            if ((allowed & (1 << (int)HttpVerb.Get)) != 0) allowed |= 1 << (int)HttpVerb.Head;
            return null;
        }
    }
}
