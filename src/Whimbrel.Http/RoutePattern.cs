namespace Whimbrel.Http;

/// <summary>
/// Rules for patterns. A pattern that can never match, or that has another meaning in other libraries, throws at
/// registration. Otherwise a route that always returns 404 would be found late.
/// </summary>
internal static class RoutePattern
{
    internal static void Check(string pattern, string parameter)
    {
        if (!pattern.StartsWith('/'))
            throw new ArgumentException($"A pattern begins with a slash: \"{pattern}\"", parameter);
        if (pattern.AsSpan().IndexOfAny('?', '#') is >= 0 and int at && !IsInName(pattern, at))
            throw new ArgumentException(
                $"A pattern is a path without query and fragment (see HttpRequest.Query): {pattern}", parameter);
        if (pattern.Contains('%', StringComparison.Ordinal))
            throw new ArgumentException($"A pattern is written without percent signs, as the path means it: {pattern}",
                parameter);
        foreach (string segment in pattern[1..].Split('/')) CheckSegment(segment, pattern, parameter);
    }

    private static bool IsInName(string pattern, int at) => pattern.LastIndexOf('{', at) > pattern.LastIndexOf('}', at);

    private static void CheckSegment(string segment, string pattern, string parameter)
    {
        if (segment is "." or "..")
            throw new ArgumentException($"A segment \"{segment}\" never reaches a route: {pattern}", parameter);
        if (segment == "*")
            throw new ArgumentException($"A segment that stands for all that is left is written {{*name}}: {pattern}",
                parameter);
        if (segment.StartsWith(':'))
            throw new ArgumentException($"A segment with a name is written {{{segment[1..]}}}: {pattern}", parameter);
        if (!segment.StartsWith('{') || !segment.EndsWith('}'))
        {
            if (segment.AsSpan().IndexOfAny('{', '}') >= 0)
                throw new ArgumentException($"A name fills its segment: {pattern}", parameter);
            return;
        }

        ReadOnlySpan<char> name = segment.AsSpan(segment.StartsWith("{*", StringComparison.Ordinal) ? 2 : 1)[..^1];
        if (name.IsEmpty) throw new ArgumentException($"A name is empty: {pattern}", parameter);
        foreach (char c in name)
        {
            if (!char.IsLetterOrDigit(c) && c is not ('_' or '-' or '.'))
                throw new ArgumentException($"The name \"{name}\" has '{c}': names are letters, digits, '_', '-' and "
                    + $"'.'. There are no types, constraints, defaults and optional segments: parse the value in the "
                    + $"handler, or add a second route. {pattern}", parameter);
        }
    }
}
