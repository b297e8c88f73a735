using System.Net;
using System.Net.Sockets;
using System.Security.Cryptography;
using System.Text;
using Whimbrel.Diagnostics;
using Whimbrel.Http;

namespace Whimbrel.Dashboard;

/// <summary>
/// Decides which requests are answered. Without a token: requests from this machine, under a name of this machine. With
/// a token: requests with a login. In both cases nothing is changed for pages of other sites.
/// </summary>
internal sealed class DashboardAccess
{
    /// <summary>Fields that a proxy adds. Its clients must not pass for clients of this machine.</summary>
    private static readonly string[] s_forwarded =
        ["Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Via"];

    private readonly DashboardOptions _options;
    private readonly LoginCookie _cookie = new();
    private readonly LoginFailures _failures = new();
    private readonly NoticePaces _notices = new();
    private readonly byte[]? _token;

    internal DashboardAccess(DashboardOptions options)
    {
        _options = options;
        _token = options.Token is { } token ? SHA256.HashData(Encoding.UTF8.GetBytes(token)) : null;
    }

    private static ReadOnlySpan<byte> Bearer => "Bearer "u8;

    internal bool NeedsLogin => _token is not null;

    // ------------------------------------------------------------------ filters, on the loop

    /// <summary>Filter of every route.</summary>
    internal void Check(HttpRequest request, HttpResponse response)
    {
        response.Add("X-Content-Type-Options", "nosniff");
        // With "no-referrer" browsers send "Origin: null" with the forms of this page.
        response.Add("Referrer-Policy", "same-origin");
        response.Add("Cross-Origin-Resource-Policy", "same-origin");
        response.Add("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; "
            + "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'");
        response.Add("Cache-Control", "no-store");
        if (Judge(request) is { } refusal) Refuse(request, response, refusal.Key, refusal.Text);
    }

    /// <summary>Filter of all routes except the page, its style and the login.</summary>
    internal void RequireLogin(HttpRequest request, HttpResponse response)
    {
        if (IsLoggedIn(request)) return;
        ReadOnlySpan<byte> field = request[HttpField.Authorization];
        if (field.StartsWith(Bearer))
        {
            if (JudgeToken(request, field[Bearer.Length..]) is { } mistake) response.Fail(mistake.Status, mistake.Text);
            return;
        }

        response.Add("WWW-Authenticate", "Bearer");
        response.Fail(401, "Log in at the page of the dashboard, or send \"Authorization: Bearer TOKEN\"");
    }

    /// <summary>True if a request has the cookie of a login, or none is needed.</summary>
    internal bool IsLoggedIn(HttpRequest request) =>
        _token is null || _cookie.IsValid(request.Cookies[CookieName(request)], NowOf(request));

    /// <summary>Checks a token. Returns status and text for a rejected one, otherwise null.</summary>
    internal (int Status, string Text)? JudgeToken(HttpRequest request, ReadOnlySpan<byte> given)
    {
        string peer = LoginFailures.KeyOf(request.Session.RemoteEndPoint);
        if (_failures.MustWait(peer, Engine.ClockMs))
            return (429, $"{LoginFailures.Most} wrong tokens came from this address: wait for a minute");
        // Hashes have one length, so the time of the comparison shows neither the length nor the beginning.
        if (CryptographicOperations.FixedTimeEquals(SHA256.HashData(given), _token)) return null;
        _failures.Add(peer, Engine.ClockMs);
        Notify(request, "token", "a wrong token was sent");
        return (401, "The token is wrong");
    }

    internal HttpCookie MakeCookie(HttpRequest request) => new(CookieName(request), _cookie.Make(NowOf(request)))
    {
        MaxAge = LoginCookie.Lifetime,
        SameSite = HttpSameSite.Strict,
        IsSecure = IsSecure(request),
    };

    internal HttpCookie EndCookie(HttpRequest request) => new(CookieName(request), "")
    {
        MaxAge = TimeSpan.Zero,
        SameSite = HttpSameSite.Strict,
        IsSecure = IsSecure(request),
    };

    /// <summary>Rejects a request with 403 and a diagnostic event, at most one a minute for each reason.</summary>
    internal void Refuse(HttpRequest request, HttpResponse response, string key, string text)
    {
        Notify(request, key, text);
        response.Fail(403, text);
    }

    // ------------------------------------------------------------------ the rules

    private (string Key, string Text)? Judge(HttpRequest request)
    {
        bool isLocal = IsLocal(request.Session);
        if (_token is null)
        {
            if (!isLocal)
                return ("remote", "This dashboard has no login, so it answers clients of its own machine only. Set "
                    + "DashboardOptions.Token, or come through ssh -L 9100:127.0.0.1:PORT HOST");
            if (!IsLocalName(request.Authority))
                return ("host", "Without a login the dashboard answers to localhost, 127.0.0.1 and [::1] only. Under "
                    + "another name the page of another site could read it (DNS rebinding). Use one of these names, "
                    + "or set DashboardOptions.Token");
            if (Array.Exists(s_forwarded, name => request[name] is not null))
                return ("forwarded", "This request came through a proxy, and the dashboard has no login. Set "
                    + "DashboardOptions.Token");
        }
        else if (!isLocal && request.Session.Tls is null && !_options.AllowPlainLogin)
        {
            return ("plain", "A token must not travel without TLS. Use https, or set DashboardOptions.AllowPlainLogin "
                + "if only a proxy with TLS reaches this server");
        }

        if (request.Verb is HttpVerb.Get or HttpVerb.Head || IsSameSite(request)) return null;
        return ("origin", "The page of another site has sent this request. If it is the dashboard behind a proxy with "
            + "TLS, set DashboardOptions.Origins");
    }

    private bool IsSameSite(HttpRequest request) =>
        _options.Origins.Accepts(request) && request["Sec-Fetch-Site"] is null or "same-origin" or "none";

    private bool IsSecure(HttpRequest request) =>
        request.Session.Tls is not null || ReferenceEquals(_options.Origins, WebSocketOrigins.SameHostBehindTls);

    // A Unix socket is guarded by the permissions of its path.
    private static bool IsLocal(Session session) => session.RemoteEndPoint is IPEndPoint { Address: { } address }
        ? IPAddress.IsLoopback(address.IsIPv4MappedToIPv6 ? address.MapToIPv4() : address)
        : session.LocalEndPoint is UnixDomainSocketEndPoint;

    /// <summary>True for a name that leads to this machine without a name server (RFC 6761, 6.3).</summary>
    internal static bool IsLocalName(ReadOnlySpan<byte> authority)
    {
        int colon = authority.LastIndexOf((byte)':');
        if (colon > authority.LastIndexOf((byte)']')) authority = authority[..colon];
        if (authority.SequenceEqual("127.0.0.1"u8) || authority.SequenceEqual("[::1]"u8)) return true;
        string name = Encoding.ASCII.GetString(authority);
        return name.Equals("localhost", StringComparison.OrdinalIgnoreCase)
            || name.EndsWith(".localhost", StringComparison.OrdinalIgnoreCase);
    }

    // Cookies are shared by all ports of a host, where another process may have a dashboard, too.
    private static string CookieName(HttpRequest request) =>
        request.Session.LocalEndPoint is IPEndPoint ip ? $"whimbrel-dashboard-{ip.Port}" : "whimbrel-dashboard";

    private static DateTimeOffset NowOf(HttpRequest request) => request.Session.Loop.Engine.UtcNow;

    private void Notify(HttpRequest request, string key, string text)
    {
        if (request.Session.Server is not { } server) return;
        if (!_notices.TryTake(key, Engine.ClockMs, out long leftOut)) return;
        server.Report(new DiagnosticEvent(DiagnosticEventKind.Dashboard,
            $"The dashboard has rejected a request of {PeerOf(request)}: {text}.{NoticePaces.LeftOutText(leftOut)}",
            DashboardSite.SymptomPage));
    }

    internal static string PeerOf(HttpRequest request) => StatusSnapshot.TextOf(request.Session.RemoteEndPoint) switch
    {
        "" => "a local client",
        string peer => peer,
    };
}
