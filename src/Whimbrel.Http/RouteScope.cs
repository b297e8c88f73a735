namespace Whimbrel.Http;

/// <summary>Prefix and filters of a server or a group. It collects them before the first connection; afterwards only
/// the table is used (<see cref="RouteTable"/>).</summary>
internal sealed class RouteScope
{
    private readonly RouteScope? _outer;
    private readonly List<RouteHandler> _filters = [];

    internal RouteScope(RouteTable table, RouteScope? outer = null, string prefix = "")
    {
        Table = table;
        _outer = outer;
        Prefix = prefix;
    }

    internal RouteTable Table { get; }

    internal string Prefix { get; }

    internal RouteScope Group(string prefix)
    {
        ArgumentNullException.ThrowIfNull(prefix);
        RoutePattern.Check(prefix, nameof(prefix));
        if (prefix.Contains("{*", StringComparison.Ordinal)) throw new ArgumentException(
            $"The prefix of a group cannot have {{*name}}, because more segments follow it: {prefix}", nameof(prefix));
        return new RouteScope(Table, this, Prefix + prefix.TrimEnd('/'));
    }

    internal void Use(RouteHandler filter)
    {
        Table.MustBeOpen();
        _filters.Add(filter);
    }

    internal void Add(HttpVerb verb, string pattern, RouteHandler handler)
    {
        Table.CheckVerb(verb);
        Table.Add((int)verb, this, PathOf(pattern), handler);
    }

    internal void Add(string method, string pattern, RouteHandler handler) =>
        Table.Add(Table.NumberFor(method), this, PathOf(pattern), handler);

    /// <summary>Returns a pattern with all prefixes.</summary>
    internal string PathOf(string pattern)
    {
        ArgumentNullException.ThrowIfNull(pattern);
        RoutePattern.Check(pattern, nameof(pattern));
        return pattern == "/" && Prefix.Length > 0 ? Prefix : Prefix + pattern;
    }

    /// <summary>Returns the filters of the outer scopes, followed by those of this one; null if there are
    /// none.</summary>
    internal RouteHandler[]? AllFilters()
    {
        RouteHandler[] outer = _outer?.AllFilters() ?? [];
        return outer.Length + _filters.Count == 0 ? null : [.. outer, .. _filters];
    }
}
