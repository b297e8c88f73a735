using System.Globalization;
using System.Net;
using System.Net.NetworkInformation;
using System.Net.Sockets;
using System.Security.Cryptography.X509Certificates;
using Whimbrel.Conformance;
using Whimbrel.Http;
using WebSocketException = System.Net.WebSockets.WebSocketException;

namespace Whimbrel.Dashboard.Tests;

// Which requests are answered, and the reason that the others get.
public class AccessTests
{
    private static DashboardOptions Login(DashboardActions actions = DashboardActions.None, bool plain = false) =>
        new() { Token = Site.Token, Actions = actions, AllowPlainLogin = plain };

    private static string OwnAddress()
    {
        string? address = NetworkInterface.GetAllNetworkInterfaces()
            .Where(static i => i.OperationalStatus == OperationalStatus.Up)
            .SelectMany(static i => i.GetIPProperties().UnicastAddresses).Select(static a => a.Address)
            .FirstOrDefault(static a => a.AddressFamily == AddressFamily.InterNetwork && !IPAddress.IsLoopback(a))
            ?.ToString();
        Assert.SkipWhen(address is null, "This machine has no address besides loopback.");
        return address!;
    }

    [Fact]
    public async Task The_page_and_its_parts_load_nothing_from_elsewhere_and_have_a_strict_policy()
    {
        await using Site site = await Site.StartAsync();
        foreach (string path in (string[])["", "/dashboard.css", "/dashboard.js", "/views.js", "/help/blocked-loop"])
        {
            using HttpResponseMessage answer = await site.GetAsync(path);
            Assert.Equal(HttpStatusCode.OK, answer.StatusCode);
            string policy = Assert.Single(answer.Headers.GetValues("Content-Security-Policy"));
            Assert.Contains("default-src 'none'; script-src 'self'; style-src 'self'", policy,
                StringComparison.Ordinal);
            Assert.DoesNotContain("unsafe", policy, StringComparison.Ordinal);
            Assert.Equal("nosniff", Assert.Single(answer.Headers.GetValues("X-Content-Type-Options")));
            Assert.True(answer.Headers.CacheControl!.NoStore);
            string text = (await Site.TextOf(answer)).Replace("http://www.w3.org/2000/svg", "",
                StringComparison.Ordinal);
            if (path.StartsWith("/help", StringComparison.Ordinal)) continue;
            Assert.DoesNotContain("://", text, StringComparison.Ordinal);
            Assert.DoesNotContain("innerHTML", text, StringComparison.Ordinal);
            Assert.DoesNotContain("=\"{", text, StringComparison.Ordinal);
        }

        using HttpResponseMessage missing = await site.GetAsync("/help/no-such-page");
        Assert.Equal(HttpStatusCode.NotFound, missing.StatusCode);
        using HttpResponseMessage slash = await site.GetAsync("/");
        Assert.Equal(HttpStatusCode.Found, slash.StatusCode);
        Assert.Equal(site.Root, new Uri(new Uri($"{site.Root}/"), slash.Headers.Location!).ToString());
        using HttpResponseMessage foreign = await site.GetAsync("/", ("Host", "evil.example"));
        Assert.Equal(HttpStatusCode.Forbidden, foreign.StatusCode);
    }

    [Theory]
    [InlineData("localhost", HttpStatusCode.OK)]
    [InlineData("LOCALHOST:80", HttpStatusCode.OK)]
    [InlineData("app.localhost", HttpStatusCode.OK)]
    [InlineData("127.0.0.1", HttpStatusCode.OK)]
    [InlineData("[::1]:9100", HttpStatusCode.OK)]
    [InlineData("evil.example", HttpStatusCode.Forbidden)]
    [InlineData("localhost.evil.example", HttpStatusCode.Forbidden)]
    [InlineData("127.0.0.1.evil.example:80", HttpStatusCode.Forbidden)]
    [InlineData("127.0.0.2", HttpStatusCode.Forbidden)]
    [InlineData("[::2]", HttpStatusCode.Forbidden)]
    public async Task Without_a_login_only_names_of_the_own_machine_are_answered(string host, HttpStatusCode status)
    {
        await using Site site = await Site.StartAsync();
        using HttpResponseMessage answer = await site.GetAsync("", ("Host", host));
        Assert.Equal(status, answer.StatusCode);
        if (status == HttpStatusCode.OK) return;
        Assert.Contains("DNS rebinding", await Site.TextOf(answer), StringComparison.Ordinal);
        DiagnosticEvent notice = await site.NoticeAsync("DNS rebinding");
        Assert.Equal((DiagnosticEventKind.Dashboard, "dashboard.md"), (notice.Kind, notice.Page));
    }

    [Theory]
    [InlineData("X-Forwarded-For", "203.0.113.9")]
    [InlineData("Forwarded", "for=203.0.113.9")]
    [InlineData("Via", "1.1 proxy")]
    public async Task Without_a_login_a_request_through_a_proxy_is_rejected(string name, string value)
    {
        await using Site site = await Site.StartAsync();
        using HttpResponseMessage answer = await site.GetAsync("", (name, value));
        Assert.Equal(HttpStatusCode.Forbidden, answer.StatusCode);
        Assert.Contains("DashboardOptions.Token", await Site.TextOf(answer), StringComparison.Ordinal);
    }

    [Fact]
    public async Task Without_a_login_a_client_of_another_address_is_rejected_with_the_reason_and_one_notice()
    {
        string address = OwnAddress();
        await using Site site = await Site.StartAsync(address: "http://*:0");
        for (int i = 0; i < 3; i++)
        {
            // Even with the name of this machine.
            using HttpResponseMessage answer =
                await site.GetAsync($"http://{address}:{site.Port}/whimbrel", ("Host", "localhost"));
            Assert.Equal(HttpStatusCode.Forbidden, answer.StatusCode);
            Assert.Contains("answers clients of its own machine only. Set DashboardOptions.Token",
                await Site.TextOf(answer), StringComparison.Ordinal);
        }

        await site.NoticeAsync($"rejected a request of {address}");
        Assert.Single(site.Notices, static n => n.Kind == DiagnosticEventKind.Dashboard);
    }

    [Theory]
    [InlineData(false, HttpStatusCode.Forbidden)]
    [InlineData(true, HttpStatusCode.OK)]
    public async Task A_token_does_not_travel_between_machines_without_TLS_unless_that_is_allowed(bool allows,
        HttpStatusCode status)
    {
        string address = OwnAddress();
        await using Site site = await Site.StartAsync(Login(plain: allows), "http://*:0");
        using HttpResponseMessage answer = await site.GetAsync($"http://{address}:{site.Port}/whimbrel/dashboard.js",
            ("Authorization", $"Bearer {Site.Token}"));
        Assert.Equal(status, answer.StatusCode);
        if (!allows)
            Assert.Contains("AllowPlainLogin", await Site.TextOf(answer), StringComparison.Ordinal);
    }

    [Fact]
    public async Task With_a_token_the_page_is_the_login_and_everything_else_needs_it()
    {
        await using Site site = await Site.StartAsync(Login());
        using HttpResponseMessage page = await site.GetAsync("", ("Host", "admin.example"));
        Assert.Contains("type=\"password\"", await Site.TextOf(page), StringComparison.Ordinal);
        foreach (string path in (string[])["/dashboard.js", "/views.js", "/live", "/help/blocked-loop"])
        {
            using HttpResponseMessage answer = await site.GetAsync(path);
            Assert.Equal(HttpStatusCode.Unauthorized, answer.StatusCode);
        }

        await Assert.ThrowsAsync<WebSocketException>(() => site.OpenAsync());
        using Page live = await site.OpenAsync(Site.Token);
        Assert.Equal("overview", (await live.NextAsync())!.Value.GetProperty("view").GetString());
    }

    [Fact]
    public async Task The_right_token_gives_a_cookie_that_scripts_and_other_sites_cannot_use()
    {
        await using Site site = await Site.StartAsync(Login());
        using HttpResponseMessage answer = await site.SendAsync(HttpMethod.Post, "/login", ("token", Site.Token));
        Assert.Equal(HttpStatusCode.SeeOther, answer.StatusCode);
        Assert.Equal("../whimbrel", answer.Headers.Location!.OriginalString);
        string cookie = Assert.Single(answer.Headers.GetValues("Set-Cookie"));
        Assert.StartsWith($"whimbrel-dashboard-{site.Port}=", cookie, StringComparison.Ordinal);
        Assert.Contains("HttpOnly", cookie, StringComparison.Ordinal);
        Assert.Contains("SameSite=Strict", cookie, StringComparison.Ordinal);
        string pair = cookie[..cookie.IndexOf(';', StringComparison.Ordinal)];
        using HttpResponseMessage script = await site.GetAsync("/dashboard.js", ("Cookie", pair));
        Assert.Equal(HttpStatusCode.OK, script.StatusCode);
        using HttpResponseMessage forged = await site.GetAsync("/dashboard.js", ("Cookie", $"{pair[..^1]}x"));
        Assert.Equal(HttpStatusCode.Unauthorized, forged.StatusCode);
        using HttpResponseMessage end = await site.SendAsync(HttpMethod.Post, "/logout", ("Cookie", pair));
        Assert.Contains("Max-Age=0", Assert.Single(end.Headers.GetValues("Set-Cookie")), StringComparison.Ordinal);
    }

    [Fact]
    public async Task Over_TLS_the_cookie_is_for_TLS_only()
    {
        await using Site site =
            await Site.StartAsync(Login(), "https://127.0.0.1:0", TestCertificates.ServerOptions);
        X509ChainPolicy policy = new()
        {
            TrustMode = X509ChainTrustMode.CustomRootTrust, RevocationMode = X509RevocationMode.NoCheck
        };
        policy.CustomTrustStore.AddRange(TestCertificates.Roots);
        using HttpClient client = new(new SocketsHttpHandler
        {
            AllowAutoRedirect = false,
            SslOptions = new() { CertificateChainPolicy = policy },
        });
        using FormUrlEncodedContent form = new([new KeyValuePair<string, string>("token", Site.Token)]);
        using HttpResponseMessage answer =
            await client.PostAsync(new Uri($"https://127.0.0.1:{site.Port}/whimbrel/login"), form, Site.End);
        Assert.Contains("Secure", Assert.Single(answer.Headers.GetValues("Set-Cookie")), StringComparison.Ordinal);
    }

    [Fact]
    public async Task After_ten_wrong_tokens_an_address_has_to_wait_also_with_the_right_one()
    {
        await using Site site = await Site.StartAsync(Login());
        for (int i = 0; i < LoginFailures.Most; i++)
        {
            using HttpResponseMessage wrong = i % 2 == 0
                ? await site.SendAsync(HttpMethod.Post, "/login", ("token", $"{Site.Token}{i}"))
                : await site.GetAsync("/dashboard.js", ("Authorization", $"Bearer {i}"));
            Assert.Equal(HttpStatusCode.Unauthorized, wrong.StatusCode);
            Assert.Contains("The token is wrong", await Site.TextOf(wrong), StringComparison.Ordinal);
        }

        using HttpResponseMessage answer = await site.SendAsync(HttpMethod.Post, "/login", ("token", Site.Token));
        Assert.Equal(HttpStatusCode.TooManyRequests, answer.StatusCode);
        Assert.Contains("wait for a minute", await Site.TextOf(answer), StringComparison.Ordinal);
        await site.NoticeAsync("a wrong token was sent");
        Assert.DoesNotContain(site.Notices, static n => n.Message.Contains(Site.Token, StringComparison.Ordinal));
    }

    [Fact]
    public void Failures_are_forgotten_after_a_minute_and_the_table_of_addresses_has_a_limit()
    {
        LoginFailures failures = new();
        for (int i = 0; i < LoginFailures.Most; i++) failures.Add("a", 1000);
        Assert.True(failures.MustWait("a", 1000 + LoginFailures.WaitMs - 1));
        Assert.False(failures.MustWait("a", 1000 + LoginFailures.WaitMs));
        Assert.False(failures.MustWait("b", 1000));

        for (int i = 0; i < LoginFailures.MostAddresses; i++) failures.Add($"{i}", 2000);
        // Above the limit addresses share an entry.
        for (int i = 0; i < LoginFailures.Most; i++) failures.Add($"more {i}", 2000);
        Assert.True(failures.MustWait("another", 2001));
        Assert.False(failures.MustWait("0", 2001));
        // Old entries make room.
        failures.Add("new", 2000 + LoginFailures.WaitMs);
        Assert.False(failures.MustWait("another", 2001 + LoginFailures.WaitMs));
        Assert.Equal("local", LoginFailures.KeyOf(new UnixDomainSocketEndPoint("/a")));
        Assert.Equal(LoginFailures.KeyOf(IPEndPoint.Parse("[2001:db8::1]:1")),
            LoginFailures.KeyOf(IPEndPoint.Parse("[2001:db8::2]:2")));
        Assert.Equal("10.0.0.1", LoginFailures.KeyOf(IPEndPoint.Parse("[::ffff:10.0.0.1]:1")));
    }

    [Fact]
    public void A_cookie_ends_after_twelve_hours_and_belongs_to_one_process()
    {
        LoginCookie cookie = new();
        DateTimeOffset now = new(2026, 1, 1, 0, 0, 0, TimeSpan.Zero);
        string value = cookie.Make(now);
        Assert.True(cookie.IsValid(value, now));
        Assert.True(cookie.IsValid(value, now + LoginCookie.Lifetime - TimeSpan.FromSeconds(1)));
        Assert.False(cookie.IsValid(value, now + LoginCookie.Lifetime));
        Assert.False(new LoginCookie().IsValid(value, now));
        int dot = value.IndexOf('.', StringComparison.Ordinal);
        string later = $"{long.Parse(value[..dot], CultureInfo.InvariantCulture) + 1}{value[dot..]}";
        foreach (string? wrong in (string?[])[null, "", ".", "1.", value[..dot], later, new string('1', 5000)])
            Assert.False(cookie.IsValid(wrong, now));
    }

    [Theory]
    [InlineData("http://evil.example", null, HttpStatusCode.Forbidden)]
    [InlineData("null", null, HttpStatusCode.Forbidden)]
    [InlineData(null, "cross-site", HttpStatusCode.Forbidden)]
    [InlineData(null, "same-site", HttpStatusCode.Forbidden)]
    [InlineData(null, null, HttpStatusCode.NotFound)]
    [InlineData(null, "same-origin", HttpStatusCode.NotFound)]
    public async Task Actions_of_pages_of_other_sites_are_rejected(string? origin, string? site, HttpStatusCode status)
    {
        await using Site here = await Site.StartAsync(Login(DashboardActions.All));
        List<(string, string)> fields = [("Authorization", $"Bearer {Site.Token}")];
        if (origin is not null) fields.Add(("Origin", origin));
        if (site is not null) fields.Add(("Sec-Fetch-Site", site));
        using HttpResponseMessage answer = await here.SendAsync(HttpMethod.Post, "/disconnect/999", [.. fields]);
        Assert.Equal(status, answer.StatusCode);
    }

    [Fact]
    public async Task A_WebSocket_of_the_page_of_another_site_is_rejected()
    {
        await using Site site = await Site.StartAsync();
        string address = $"ws://127.0.0.1:{site.Port}/whimbrel/live";
        WebSocketException e = await Assert.ThrowsAsync<WebSocketException>(
            () => Page.OpenAsync(address, origin: "http://evil.example"));
        Assert.Contains("403", e.Message, StringComparison.Ordinal);
        using Page own = await Page.OpenAsync(address, origin: $"http://127.0.0.1:{site.Port}");
        Assert.NotNull(await own.NextAsync());
    }

    public static TheoryData<DashboardOptions, string> Mistakes() => new()
    {
        { new DashboardOptions { Token = "short" }, "Token has 5 characters: 16 at least" },
        { new DashboardOptions { Actions = DashboardActions.Drain }, "Actions need a login: set Token" },
        { new DashboardOptions { Actions = (DashboardActions)64, Token = Site.Token }, "unknown flag" },
        { new DashboardOptions { AllowPlainLogin = true }, "AllowPlainLogin needs a Token" },
        { new DashboardOptions { Interval = TimeSpan.FromMilliseconds(99) }, "100 ms up to 1 minute" },
        { new DashboardOptions { Interval = TimeSpan.FromSeconds(61) }, "100 ms up to 1 minute" },
        { new DashboardOptions { MaxViewers = 0 }, "1 up to 100" },
        { new DashboardOptions { MaxViewers = 101 }, "1 up to 100" },
        { new DashboardOptions { Engines = [null!] }, "Engines has null" },
        { new DashboardOptions { Origins = null! }, "Origins is null" },
    };

    [Theory, MemberData(nameof(Mistakes), DisableDiscoveryEnumeration = true)]
    public async Task Contradicting_options_throw_at_the_call_with_the_remedy(DashboardOptions options, string remedy)
    {
        await using HttpServer web = new("http://127.0.0.1:0");
        ArgumentException e = Assert.Throws<ArgumentException>(() => web.AddDashboard("/whimbrel", options));
        Assert.Contains(remedy, e.Message, StringComparison.Ordinal);
        Assert.Equal("options", e.ParamName);
    }

    [Theory]
    [InlineData("whimbrel")]
    [InlineData("/{name}")]
    [InlineData("")]
    public async Task A_path_that_is_none_throws_at_the_call(string path)
    {
        await using HttpServer web = new("http://127.0.0.1:0");
        Assert.ThrowsAny<ArgumentException>(() => web.AddDashboard(path));
    }

    [Theory]
    [InlineData("/", "", "/login", "./")]
    [InlineData("/a/b/", "/a/b", "/a/b/login", "../b")]
    public async Task The_links_of_the_page_are_relative_to_its_path(string path, string page, string login,
        string home)
    {
        await using HttpServer web = new("http://127.0.0.1:0");
        web.AddDashboard(path);
        await web.StartAsync(Site.End);
        using HttpClient client = new(new SocketsHttpHandler { AllowAutoRedirect = false });
        Uri root = new($"http://127.0.0.1:{((IPEndPoint)web.EndPoint!).Port}{page}");
        string text = await client.GetStringAsync(root, Site.End);
        int from = text.IndexOf("src=\"", StringComparison.Ordinal) + 5;
        Uri script = new(root, text[from..text.IndexOf('"', from)]);
        Assert.Contains("import", await client.GetStringAsync(script, Site.End), StringComparison.Ordinal);
        using HttpResponseMessage answer = await client.PostAsync(new Uri(root, login), null, Site.End);
        Assert.Equal(home, answer.Headers.Location!.OriginalString);
    }
}
