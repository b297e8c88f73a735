using System.Net;
using System.Security.Cryptography;
using System.Text;
using Whimbrel.Http;

namespace Whimbrel.Dashboard;

/// <summary>
/// Routes of one dashboard. START READING HERE: <see cref="DashboardAccess"/> decides which requests are answered,
/// <see cref="Viewers"/> samples for open pages, <see cref="ActionRoutes"/> changes something.
/// </summary>
internal sealed class DashboardSite
{
    /// <summary>Page of the diagnostic events of dashboards, below docs/symptoms.</summary>
    internal const string SymptomPage = "dashboard.md";

    private readonly DashboardOptions _options;
    private readonly DashboardAccess _access;
    private readonly Viewers _viewers;
    private string _folder = "";

    internal DashboardSite(DashboardOptions options)
    {
        _options = options;
        _access = new DashboardAccess(options);
        _viewers = new Viewers(options);
    }

    private static ReadOnlySpan<byte> Html => "text/html; charset=utf-8"u8;

    /// <summary>Open pages and their samples. For tests.</summary>
    internal Viewers Viewers => _viewers;

    internal void AddTo(IHttpRoutes routes, string path)
    {
        HttpRouteGroup group = routes.Group(path);
        // Links are relative to the page, so that a proxy may change the path before it.
        _folder = group.Prefix.Length == 0 ? "" : $"{group.Prefix[(group.Prefix.LastIndexOf('/') + 1)..]}/";
        group.Use(_access.Check);
        byte[] page = PageOf("dashboard.html", _folder, "");
        group.Get("/", (request, response) => AnswerPage(request, response, page));
        AddAsset(group, "dashboard.css", "text/css; charset=utf-8");
        group.Post("/login", LogIn);
        group.Post("/logout", LogOut);

        HttpRouteGroup inside = group.Group("/");
        inside.Use(_access.RequireLogin);
        AddAsset(inside, "dashboard.js", "text/javascript; charset=utf-8");
        AddAsset(inside, "views.js", "text/javascript; charset=utf-8");
        inside.Get("/help/{page}", Explain);
        inside.WebSocket("/live", (socket, stop) => new Viewer(_viewers, socket).RunAsync(stop),
            new WebSocketOptions { MessageLimitBytes = View.MostBytes, Origins = _options.Origins });
        new ActionRoutes(_options, _access).AddTo(inside);

        // People also type the path with a slash at the end, which is another path.
        if (path.Trim('/').Length == 0) return;
        HttpRouteGroup outer = routes.Group("/");
        outer.Use(_access.Check);
        outer.Get($"{path.TrimEnd('/')}/", (_, response) => response.Redirect(Home));
    }

    private void AnswerPage(HttpRequest request, HttpResponse response, byte[] page)
    {
        if (!_access.IsLoggedIn(request)) AnswerLogin(response, _folder, "");
        else response.Bytes(page, Html);
    }

    /// <param name="response">Response of the request.</param>
    /// <param name="folder">Path of the other routes, relative to that of the request.</param>
    /// <param name="message">Text of this program, without markup; empty for none.</param>
    private static void AnswerLogin(HttpResponse response, string folder, string message) =>
        response.Bytes(PageOf("login.html", folder, message), Html);

    private void LogIn(HttpRequest request, HttpResponse response)
    {
        if (!_access.NeedsLogin)
        {
            response.Redirect(Home, 303);
            return;
        }

        if (!request.Form.TryGet("token"u8, out _))
        {
            response.Fail(400, "The form has no field \"token\"");
            return;
        }

        byte[] token = Encoding.UTF8.GetBytes(request.Form["token"] ?? "");
        (int Status, string Text)? mistake = _access.JudgeToken(request, token);
        CryptographicOperations.ZeroMemory(token);
        if (mistake is { } wrong)
        {
            response.Status = wrong.Status;
            if (wrong.Status == 429) response.Add("Retry-After", "60");
            // This address is one level below the page.
            AnswerLogin(response, "", wrong.Text);
            return;
        }

        response.SetCookie(_access.MakeCookie(request));
        response.Redirect(Home, 303);
    }

    private void LogOut(HttpRequest request, HttpResponse response)
    {
        if (_access.NeedsLogin) response.SetCookie(_access.EndCookie(request));
        response.Redirect(Home, 303);
    }

    /// <summary>The page, relative to a path one level below it.</summary>
    private string Home => _folder.Length == 0 ? "./" : $"../{_folder.TrimEnd('/')}";

    /// <summary>Responds with a troubleshooting page of the documentation, as the text that it is.</summary>
    private static void Explain(HttpRequest request, HttpResponse response)
    {
        if (Resource($"symptoms/{request.Route["page"]}.md") is { } page)
            response.Bytes(page, "text/plain; charset=utf-8"u8);
        else
            response.Fail(404, "There is no such troubleshooting page");
    }

    private static void AddAsset(HttpRouteGroup group, string name, string type)
    {
        byte[] asset = Resource($"page/{name}")!, contentType = Encoding.ASCII.GetBytes(type);
        group.Get($"/{name}", (_, response) => response.Bytes(asset, contentType));
    }

    private static byte[] PageOf(string name, string folder, string message) => Encoding.UTF8.GetBytes(
        Encoding.UTF8.GetString(Resource($"page/{name}")!).Replace("{folder}", WebUtility.HtmlEncode(folder),
                StringComparison.Ordinal)
            .Replace("{message}", message, StringComparison.Ordinal));

    private static byte[]? Resource(string name)
    {
        using Stream? resource = typeof(DashboardSite).Assembly.GetManifestResourceStream(name);
        if (resource is null) return null;
        byte[] bytes = new byte[resource.Length];
        resource.ReadExactly(bytes);
        return bytes;
    }
}
