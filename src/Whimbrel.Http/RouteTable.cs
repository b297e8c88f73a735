using System.Text;
using Whimbrel.Diagnostics;
using Whimbrel.Http.Files;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// Routes of a server as one tree of path segments. A segment is a text, a <c>{name}</c> for any one segment, or, as
/// the last, a <c>{*name}</c> for the rest. Text has priority over names, names over the rest. If a match lacks the
/// method, the search continues. Each node is visited at most once per request.
/// </summary>
internal sealed class RouteTable
{
    private const int LongestText = 256;
    private const int FirstOwn = (int)HttpVerb.Patch + 1; // numbers of methods that are not in HttpVerb begin here
    private const int MostOwn = 64 - FirstOwn;
    private const ulong All = (1UL << (int)HttpVerb.Get) | (1UL << (int)HttpVerb.Head) | (1UL << (int)HttpVerb.Options);

    private readonly Node _root = new();
    private readonly List<Route> _routes = [];
    private readonly List<string> _ownMethods = [];
    private readonly Lock _gate = new();
    private RouteHandler[]? _filters;
    private volatile bool _isFrozen;
    private NoticePace _stopNotices;

    internal RouteTable() => Scope = new RouteScope(this);

    /// <summary>Handler or folder, with its pattern, and with method and pattern for messages.</summary>
    internal sealed record Route(RouteScope Scope, RouteHandler Handler, FileSite? Site, string[] Names, string Pattern,
        string Text)
    {
        /// <summary>Filters that run before it; null for none. Set at the first request.</summary>
        internal RouteHandler[]? Filters { get; set; }

        internal bool IsAwaitable => Handler.Awaitable is not null;
    }

    /// <summary>Result of a search.</summary>
    /// <param name="Route">Route; null if there is no handler.</param>
    /// <param name="Method">Number of the method; 0 if no route has it.</param>
    /// <param name="Allowed">Methods with a handler at this path, one bit each.</param>
    internal readonly record struct Found(Route? Route, int Method, ulong Allowed)
    {
        internal HttpBodyMode Mode => Route switch
        {
            null or { Site: not null } => HttpBodyMode.Skip,
            { IsAwaitable: true } => HttpBodyMode.Stream,
            _ => HttpBodyMode.Buffer,
        };
    }

    /// <summary>Scope of the server.</summary>
    internal RouteScope Scope { get; }

    /// <summary>All routes.</summary>
    internal IReadOnlyList<Route> Routes => _routes;

    /// <summary>Folders that are served.</summary>
    internal List<FileSite> Sites { get; } = [];

    /// <summary>Whether routes may serve TRACE.</summary>
    internal bool ServesTrace { get; init; }

    /// <summary>Compression of files.</summary>
    internal HttpCompression? Compression { get; init; }

    /// <summary>Hook for exceptions of handlers; null for none.</summary>
    internal Func<HttpRequest, HttpResponse, Exception, ValueTask>? ErrorHook { get; private set; }

    /// <summary>Whether to report a handler that outlives a stop: at most once a minute. Any thread.</summary>
    internal bool TryNoteStop(long nowMs) => _stopNotices.TryTake(nowMs);

    /// <summary>Responds to a request without a handler.</summary>
    internal void Refuse(in Found found, HttpResponse response)
    {
        if (found.Method == 0)
        {
            response.Fail(501);
            return;
        }

        if (found.Allowed == 0)
        {
            response.Fail(404);
            return;
        }

        response.Add("Allow", AllowOf(found.Allowed));
        if (found.Method == (int)HttpVerb.Options) response.Empty(204);
        else response.Fail(405);
    }

    /// <summary>Returns the filters of a request.</summary>
    internal RouteHandler[]? FiltersOf(in Found found) => found.Route is { } route ? route.Filters : _filters;

    // ------------------------------------------------------------------ building

    internal void Add(int method, RouteScope scope, string pattern, RouteHandler handler, FileSite? site = null)
    {
        MustBeOpen();
        List<string> names = [];
        Node node = _root;
        string[] segments = pattern[1..].Split('/');
        for (int i = 0; i < segments.Length; i++)
            node = ChildFor(node, segments[i], i == segments.Length - 1, names, pattern);
        if (names.Count > EightNumbers.Length)
            throw new ArgumentException($"A pattern has up to {EightNumbers.Length} names: {pattern}", nameof(pattern));
        if (names.Distinct().Count() < names.Count)
            throw new ArgumentException($"A name stands twice in a pattern: {pattern}", nameof(pattern));
        string text = $"{NameOf(method)} {pattern}";
        Route route = new(scope, handler, site, [.. names], pattern, text);
        if (node.Add(method, route) is { } other)
            throw new ArgumentException(
                $"There is a route {other.Text} already, and {text} matches the same requests. Remove one, or handle "
                + "both cases in one handler.", nameof(pattern));
        _routes.Add(route);
    }

    internal void AddErrorHook(Func<HttpRequest, HttpResponse, Exception, ValueTask> hook)
    {
        MustBeOpen();
        if (ErrorHook is not null)
            throw new InvalidOperationException("There is an error hook already: a server has one.");
        ErrorHook = hook;
    }

    internal void MustBeOpen()
    {
        if (_isFrozen)
            throw new InvalidOperationException(
                "Routes, filters and the error hook are added before the first connection.");
    }

    internal void CheckVerb(HttpVerb verb)
    {
        if (verb == HttpVerb.Other || !Enum.IsDefined(verb))
            throw new ArgumentOutOfRangeException(nameof(verb), verb,
                "A method without a number is given by its name: Map(\"PURGE\", ...).");
        if (verb == HttpVerb.Connect)
            throw new ArgumentOutOfRangeException(nameof(verb), verb, "CONNECT is for proxies: it reaches no route.");
        if (verb == HttpVerb.Trace && !ServesTrace)
            throw new ArgumentOutOfRangeException(nameof(verb), verb,
                "TRACE reaches no route unless HttpOptions.AllowTrace is set.");
    }

    /// <summary>Returns the number of a method; a new name gets a new number.</summary>
    internal int NumberFor(string method)
    {
        ArgumentNullException.ThrowIfNull(method);
        if (!HttpBytes.IsToken(method))
            throw new ArgumentException($"A method is a token (letters, digits and some signs): \"{method}\"",
                nameof(method));
        for (HttpVerb verb = HttpVerb.Get; verb <= HttpVerb.Patch; verb++)
        {
            string name = NameOf((int)verb);
            if (!name.Equals(method, StringComparison.OrdinalIgnoreCase)) continue;
            if (name != method) throw new ArgumentException(
                $"The case of a method counts, and no client sends \"{method}\": write \"{name}\".", nameof(method));
            CheckVerb(verb);
            return (int)verb;
        }

        MustBeOpen();
        int index = _ownMethods.IndexOf(method);
        if (index >= 0) return FirstOwn + index;
        if (_ownMethods.Count == MostOwn)
            throw new ArgumentException($"A server has up to {MostOwn} methods without a number: {method}",
                nameof(method));
        _ownMethods.Add(method);
        return FirstOwn + _ownMethods.Count - 1;
    }

    private string NameOf(int method) =>
        method < FirstOwn ? ((HttpVerb)method).ToString().ToUpperInvariant() : _ownMethods[method - FirstOwn];

    private static Node ChildFor(Node node, string segment, bool isLast, List<string> names, string pattern)
    {
        if (!segment.StartsWith('{')) return node.Text(Encoding.UTF8.GetBytes(segment));
        bool isRest = segment.StartsWith("{*", StringComparison.Ordinal);
        string name = segment[(isRest ? 2 : 1)..^1];
        if (isRest && !isLast)
            throw new ArgumentException($"{{*name}} is the last segment: {pattern}", nameof(pattern));
        names.Add(name);
        return isRest ? node.Rest ??= new Node() : node.Any ??= new Node();
    }

    // ------------------------------------------------------------------ finding

    /// <summary>Finds the route, and stores the positions of its names in the exchange.</summary>
    internal Found Find(HttpVerb verb, ServerExchange request)
    {
        if (!_isFrozen) Freeze();
        int method = verb != HttpVerb.Other ? (int)verb : _ownMethods.Count == 0 ? 0 : FindOwn(request.Method);
        ReadOnlySpan<byte> path = request.Path;
        if (path.IsEmpty) return new Found(null, method, All);
        ulong allowed = 0;
        Route? route = Walk(_root, path, 1, 0, method, ref allowed, ref request.Places);
        if (route is not null) request.Places.Names = route.Names;
        return new Found(route, method, allowed);
    }

    private int FindOwn(ReadOnlySpan<byte> name)
    {
        for (int i = 0; i < _ownMethods.Count; i++)
        {
            if (Ascii.Equals(name, _ownMethods[i])) return FirstOwn + i;
        }

        return 0;
    }

    /// <summary>Resolves the filters of all routes at the first request, so that the order of filters and routes does
    /// not matter.</summary>
    private void Freeze()
    {
        // tidy: allowed because only the first requests of a server come here
        lock (_gate)
        {
            if (_isFrozen) return;
            foreach (Route route in _routes) route.Filters = route.Scope.AllFilters();
            _filters = Scope.AllFilters();
            _isFrozen = true;
        }
    }

    private static Route? Walk(Node node, ReadOnlySpan<byte> path, int start, int names, int method, ref ulong allowed,
        ref RoutePlaces places)
    {
        if (start > path.Length) return node.RouteFor(method, ref allowed);
        int length = path[start..].IndexOf((byte)'/');
        int end = length < 0 ? path.Length : start + length;
        ReadOnlySpan<byte> segment = path[start..end];
        if (node.Find(segment) is { } text
            && Walk(text, path, end + 1, names, method, ref allowed, ref places) is { } byText)
            return byText;
        // An empty segment is not a value.
        if (node.Any is { } any && end > start)
        {
            Route? byName = Walk(any, path, end + 1, names + 1, method, ref allowed, ref places);
            if (byName is not null)
            {
                places.Starts[names] = start;
                places.Lengths[names] = end - start;
                return byName;
            }
        }

        if (node.Rest?.RouteFor(method, ref allowed) is not { } rest) return null;
        places.Starts[names] = start;
        places.Lengths[names] = path.Length - start;
        return rest;
    }

    private string AllowOf(ulong allowed)
    {
        List<string> methods = [];
        for (int method = 1; method < FirstOwn + _ownMethods.Count; method++)
        {
            if ((allowed & (1UL << method)) != 0) methods.Add(NameOf(method));
        }

        return string.Join(", ", methods);
    }

    /// <summary>Node of the tree.</summary>
    private sealed class Node
    {
        private readonly List<(byte[] Segment, Node Node)> _texts = [];
        private Route?[] _routes = []; // by number of the method

        internal Node? Any { get; set; }

        internal Node? Rest { get; set; }

        /// <summary>Adds a route. Returns the present one if there is one for this method.</summary>
        internal Route? Add(int method, Route route)
        {
            if (_routes.Length <= method) Array.Resize(ref _routes, Math.Max(method, (int)HttpVerb.Patch) + 1);
            if (_routes[method] is { } other) return other;
            _routes[method] = route;
            return null;
        }

        internal Node Text(byte[] segment)
        {
            if (Find(segment) is { } known) return known;
            Node node = new();
            _texts.Add((segment, node));
            return node;
        }

        internal Node? Find(ReadOnlySpan<byte> segment)
        {
            // Percent-encoding is decoded, but an encoded slash does not separate segments.
            bool isShort = segment.Length <= LongestText && segment.Contains((byte)'%');
            Span<byte> room = stackalloc byte[isShort ? segment.Length : 0];
            ReadOnlySpan<byte> plain = isShort ? HttpText.Decode(segment, room) : HttpText.Decode(segment);
            foreach ((byte[] text, Node node) in _texts)
            {
                if (plain.SequenceEqual(text)) return node;
            }

            return null;
        }

        /// <summary>Returns the route of a method, for HEAD also that of GET. Adds the available methods to
        /// <paramref name="allowed"/> if there is none.</summary>
        internal Route? RouteFor(int method, ref ulong allowed)
        {
            Route?[] routes = _routes;
            Route? route = RouteAt(method) ?? (method == (int)HttpVerb.Head ? RouteAt((int)HttpVerb.Get) : null);
            if (route is not null || routes.Length == 0) return route;
            for (int i = 1; i < routes.Length; i++)
            {
                if (routes[i] is not null) allowed |= 1UL << i;
            }

            allowed |= 1UL << (int)HttpVerb.Options;
            if ((allowed & (1UL << (int)HttpVerb.Get)) != 0) allowed |= 1UL << (int)HttpVerb.Head;
            return null;
        }

        private Route? RouteAt(int method) => method < _routes.Length ? _routes[method] : null;
    }
}
