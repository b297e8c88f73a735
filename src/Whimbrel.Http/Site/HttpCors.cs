using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// Web pages of other origins that may use this server from a script (CORS): <c>new HttpOptions { Cors = new
/// HttpCors("https://app.example") }</c>. Preflight requests are answered for all paths. CORS rejects no request,
/// because only browsers evaluate it.
/// </summary>
public sealed class HttpCors
{
    private readonly string[] _origins;
    private byte[][]? _lines;
    private byte[]? _preflight;

    /// <summary>Creates rules that allow these origins.</summary>
    /// <param name="origins">Origins as browsers send them: <c>https://app.example</c>, <c>http://localhost:3000</c>,
    /// lower case, without a path. <c>*</c> alone for all.</param>
    /// <exception cref="ArgumentException">One is not an origin, or <c>*</c> is not alone.</exception>
    public HttpCors(params string[] origins)
    {
        ArgumentNullException.ThrowIfNull(origins);
        foreach (string origin in origins)
        {
            if (origin == "*" ? origins.Length > 1 : !IsOrigin(origin))
                throw new ArgumentException($"\"{origin}\" is not an origin. Write scheme://host in lower case, with a "
                    + $"port if it is not the default one, and nothing after it; or only *.", nameof(origins));
        }

        _origins = [.. origins];
    }

    /// <summary>Whether scripts may send cookies and read the response. Not with <c>*</c>. Default false.</summary>
    public bool AllowsCredentials { get; init; }

    /// <summary>Methods that scripts may use. Default GET, HEAD, POST, PUT, PATCH, DELETE.</summary>
    public IReadOnlyList<string> Methods { get; init; } = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

    /// <summary>Fields that scripts may send. Default null: all requested ones.</summary>
    public IReadOnlyList<string>? Fields { get; init; }

    /// <summary>Response fields that scripts may read, besides the safelisted ones. Default none.</summary>
    public IReadOnlyList<string> ExposedFields { get; init; } = [];

    /// <summary>Time for which a browser caches a preflight response. Zero to 1 day; default 10 minutes.</summary>
    public TimeSpan MaxAge { get; init; } = TimeSpan.FromMinutes(10);

    private static ReadOnlySpan<byte> VaryLine => "Vary: Origin\r\n"u8;

    internal void Check(List<string> mistakes)
    {
        bool isAny = _origins is ["*"];
        if (isAny && AllowsCredentials)
            mistakes.Add("Cors allows credentials to all origins: name those that may have them.");
        if (MaxAge < TimeSpan.Zero || MaxAge > TimeSpan.FromDays(1))
            mistakes.Add($"Cors.MaxAge is {MaxAge}: zero up to 1 day is possible.");
        foreach (string token in (string[])[.. Methods, .. Fields ?? [], .. ExposedFields])
        {
            if (!HttpBytes.IsToken(token)) mistakes.Add($"Cors has \"{token}\", which is no token.");
        }

        string more = (AllowsCredentials ? "Access-Control-Allow-Credentials: true\r\n" : "")
            + (ExposedFields.Count > 0 ? $"Access-Control-Expose-Headers: {string.Join(", ", ExposedFields)}\r\n" : "")
            + (isAny ? "" : Encoding.ASCII.GetString(VaryLine));
        _preflight = Encoding.ASCII.GetBytes(
            $"Access-Control-Allow-Methods: {string.Join(", ", Methods)}\r\nAccess-Control-Max-Age: "
            + $"{(long)MaxAge.TotalSeconds}\r\n"
            + (Fields is { Count: > 0 } fields
                ? $"Access-Control-Allow-Headers: {string.Join(", ", fields)}\r\n"
                : ""));
        _lines = [.. _origins.Select(o => Encoding.ASCII.GetBytes($"Access-Control-Allow-Origin: {o}\r\n{more}"))];
    }

    /// <summary>Adds the CORS fields of the response. Returns true for a preflight: its response has nothing
    /// else.</summary>
    internal bool Apply(HttpRequest request, HttpResponse response)
    {
        bool isAsked = request.TryGet(HttpField.Origin, out ReadOnlySpan<byte> origin);
        byte[]? lines = _origins is ["*"] ? isAsked ? _lines![0] : null : Find(origin);
        if (lines is not null) response.AddLines(lines);
        // A cached response must not be used for another origin.
        else if (_origins is not ["*"]) response.AddLines(VaryLine);
        if (!isAsked || request.Verb != HttpVerb.Options
            || !request.TryGet(HttpField.AccessControlRequestMethod, out _))
            return false;
        if (lines is null) return true;
        response.AddLines(_preflight);
        if (Fields is null && request.TryGet(HttpField.AccessControlRequestHeaders, out ReadOnlySpan<byte> asked)
            && IsTokens(asked))
        {
            response.AddLines("Access-Control-Allow-Headers: "u8);
            response.AddLines(asked);
            response.AddLines("\r\n"u8);
        }

        return true;
    }

    private byte[]? Find(ReadOnlySpan<byte> origin)
    {
        for (int i = 0; i < _origins.Length; i++)
        {
            if (Ascii.Equals(origin, _origins[i])) return _lines![i];
        }

        return null;
    }

    private static bool IsTokens(ReadOnlySpan<byte> list)
    {
        while (HttpBytes.TryNextElement(ref list, out ReadOnlySpan<byte> element))
        {
            if (!HttpBytes.IsToken(element)) return false;
        }

        return true;
    }

    private static bool IsOrigin(string origin)
    {
        int host = origin.IndexOf("://", StringComparison.Ordinal);
        if (host <= 0) return false;
        foreach (char c in origin)
        {
            if (c >= '\x7F' || char.IsAsciiLetterUpper(c)) return false;
        }

        return HttpBytes.IsToken(origin.AsSpan(0, host))
            && HttpBytes.IsAuthority(Encoding.ASCII.GetBytes(origin[(host + 3)..]));
    }
}
