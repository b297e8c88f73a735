using System.Net.Sockets;
using System.Text;
using Whimbrel.Tool.Tests;

namespace Whimbrel.Dashboard.Tests;

// The page in Chromium: keys, sorting, text that is never markup, light and dark, login and actions.
[Trait("Runs", "quiet")]
public class BrowserTests
{
    private const string Nasty = "<img src=x onerror='window.harmed=1'>";

    private static readonly DashboardOptions _fast = new() { Interval = TimeSpan.FromMilliseconds(200) };

    private static Task<int> SendAsync(Socket socket, string text) =>
        socket.SendAsync(Encoding.UTF8.GetBytes(text), Site.End).AsTask();

    private static Task<string> KeyAsync(Browser browser, string key) => browser.EvaluateAsync(
        $"document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {{ key: '{key}', bubbles: true }}))");

    [Fact]
    public async Task The_page_shows_sorts_filters_and_opens_connections_by_keys_and_mouse()
    {
        await using Site site = await Site.StartAsync(_fast);
        await using Browser browser = await Browser.StartAsync();
        List<(Socket Socket, Session Session)> clients = [];
        for (int i = 0; i < 70; i++) clients.Add(await site.ConnectAsync());
        await SendAsync(clients[30].Socket, "flood");
        foreach ((Socket socket, _) in clients.Take(5)) await SendAsync(socket, $"join {Nasty}");
        site.Server.Report(new DiagnosticEvent(DiagnosticEventKind.Protocol, $"a peer sent {Nasty}",
            "protocol-mismatch.md"));
        await browser.SizeAsync(1280, 800, 1, isMobile: false);
        await browser.OpenAsync(site.Root);
        await browser.UntilAsync("document.querySelector('#state.open')");
        await browser.UntilAsync("document.querySelectorAll('[aria-label=Loops] tbody tr').length === 2");
        await browser.UntilAsync("document.querySelectorAll('polyline')[0]?.getAttribute('points').includes(' ')");

        // A server leads to its connections, without that of the page.
        await browser.EvaluateAsync("[...document.querySelectorAll('[aria-label=Servers] a.row')]"
            + $".find(a => a.textContent === '{site.Server.EndPoint}').click()");
        await browser.UntilAsync("document.querySelector('main').textContent.includes('page 1 of 2, 70 rows')");
        await KeyAsync(browser, "2");
        await browser.UntilAsync("/page 1 of 2, 7[1-9] rows/.test(document.querySelector('main').textContent)");
        await browser.UntilAsync("document.querySelectorAll('[aria-label=Connections] tbody tr').length === 50");
        string slow = clients[30].Session.Id.ToString("x", System.Globalization.CultureInfo.InvariantCulture);
        await browser.UntilAsync($"document.querySelector('tbody a.row').textContent === '{slow}'");
        await KeyAsync(browser, "n");
        await browser.UntilAsync("document.querySelector('main').textContent.includes('page 2 of 2')");
        await browser.EvaluateAsync("document.querySelector('th[data-order=age] button').click()");
        await browser.UntilAsync(
            "document.querySelector('th[data-order=age]').getAttribute('aria-sort') === 'descending'");

        // The filter keeps the focus while rows change below it.
        await KeyAsync(browser, "/");
        Assert.Equal("search", await browser.EvaluateAsync("document.activeElement.type"));
        string peer = clients[3].Socket.LocalEndPoint!.ToString()!;
        await browser.EvaluateAsync($"(() => {{ const box = document.activeElement; box.value = '{peer}'; "
            + "box.dispatchEvent(new Event('input', { bubbles: true })); })()");
        await browser.UntilAsync("document.querySelectorAll('[aria-label=Connections] tbody tr').length === 1");
        Assert.Equal("search", await browser.EvaluateAsync("document.activeElement.type"));
        await KeyAsync(browser, "Escape");
        await KeyAsync(browser, "j");
        await browser.EvaluateAsync("document.activeElement.click()");
        await browser.UntilAsync("document.querySelector('dl')?.textContent.includes('Echo')");
        await browser.UntilAsync("document.querySelector('main dl').textContent.includes('onerror')");
        Assert.Equal("true", await browser.EvaluateAsync("document.querySelector('main .tools').hidden"));
        clients[3].Socket.Dispose();
        await browser.UntilAsync("document.querySelector('main h2').textContent.includes('ended')");
        await browser.UntilAsync("document.querySelector('main dl').textContent.includes('by the peer')");
        await KeyAsync(browser, "Escape");
        await browser.UntilAsync("location.hash.startsWith('#connections')");

        await KeyAsync(browser, "3");
        await browser.UntilAsync(
            "document.querySelector('[aria-label=Groups] tbody a.row')?.textContent.includes('onerror')");
        await browser.EvaluateAsync("document.querySelector('tbody a.row').click()");
        await browser.UntilAsync("document.querySelectorAll('[aria-label=Connections] tbody tr').length === 4");
        await KeyAsync(browser, "5");
        await browser.UntilAsync(
            "document.querySelector('[aria-label=Notices] tbody')?.textContent.includes('onerror')");
        Assert.StartsWith("#", await browser.EvaluateAsync(
            "fetch(document.querySelector('tbody a.row').href).then(r => r.text())"), StringComparison.Ordinal);
        Assert.Equal("undefined", await browser.EvaluateAsync("typeof window.harmed"));
        Assert.Equal("0", await browser.EvaluateAsync("document.querySelectorAll('main img').length"));
        Assert.Equal("true", await browser.EvaluateAsync(
            "performance.getEntriesByType('resource').every(r => r.name.startsWith(location.origin))"));
    }

    // WHIMBREL_ACCEPT_IMAGES=1 takes the picture of README and guide again.
    [Fact]
    public async Task The_guide_has_a_picture_of_the_page()
    {
        string picture = Path.Combine(SourceTree.Root, "docs", "images", "dashboard.png");
        if (Environment.GetEnvironmentVariable("WHIMBREL_ACCEPT_IMAGES") == "1")
        {
            await using Site site = await Site.StartAsync(_fast);
            List<Socket> sockets = [];
            for (int i = 0; i < 300; i++) sockets.Add((await site.ConnectAsync()).Socket);
            await SendAsync(sockets[7], "flood");
            await using Browser browser = await Browser.StartAsync();
            await browser.SizeAsync(1280, 720, 1, isMobile: false);
            await browser.OpenAsync(site.Root);
            using CancellationTokenSource end = new();
            Task traffic = TalkAsync(sockets, end.Token);
            await browser.UntilAsync("document.querySelectorAll('polyline')[1]?.getAttribute('points').split(' ')"
                + ".length > 60");
            await File.WriteAllBytesAsync(picture, await browser.PictureAsync(), Site.End);
            await end.CancelAsync();
            await traffic;
        }

        Assert.True(File.Exists(picture), "README and guide show it.");
    }

    private static async Task TalkAsync(List<Socket> sockets, CancellationToken end)
    {
        byte[] answer = new byte[4096];
        for (int turn = 0; !end.IsCancellationRequested; turn++)
        {
            int most = 20 + (int)(120 * (1 + Math.Sin(turn / 12.0)));
            foreach (Socket socket in sockets.Skip(10).Take(most))
            {
                await SendAsync(socket, new string('m', 100 + (turn % 300)));
                await socket.ReceiveAsync(answer, Site.End);
            }

            // tidy: waits because the traffic has a pace
            await Task.Delay(10, CancellationToken.None);
        }
    }

    [Fact]
    public async Task The_page_is_light_dark_or_as_the_system_and_says_when_the_server_is_away()
    {
        await using Site site = await Site.StartAsync(_fast);
        await using Browser browser = await Browser.StartAsync();
        await browser.SchemeAsync("dark");
        await browser.OpenAsync(site.Root);
        await browser.UntilAsync("document.querySelector('#state.open')");
        const string Back = "getComputedStyle(document.body).backgroundColor";
        Assert.Equal("rgb(20, 24, 27)", await browser.EvaluateAsync(Back));
        await KeyAsync(browser, "t");
        Assert.Equal("rgb(244, 243, 239)", await browser.EvaluateAsync(Back));
        await KeyAsync(browser, "t");
        await browser.SchemeAsync("light");
        Assert.Equal("rgb(20, 24, 27)", await browser.EvaluateAsync(Back));
        await KeyAsync(browser, "t");
        Assert.Equal("rgb(244, 243, 239)", await browser.EvaluateAsync(Back));
        await KeyAsync(browser, "?");
        Assert.Equal("true", await browser.EvaluateAsync("document.querySelector('#help').open"));
        await site.Web.StopAsync();
        await browser.UntilAsync("!document.querySelector('#state.open')");
    }

    [Fact]
    public async Task After_a_login_an_action_asks_first_and_its_audit_line_is_shown()
    {
        await using Site site = await Site.StartAsync(new DashboardOptions
        {
            Token = Site.Token, Actions = DashboardActions.All, Interval = TimeSpan.FromMilliseconds(200)
        });
        (_, Session session) = await site.ConnectAsync();
        await using Browser browser = await Browser.StartAsync();
        await browser.OpenAsync(site.Root);
        await browser.UntilAsync("document.querySelector('#token')");
        await browser.EvaluateAsync("(() => { document.querySelector('#token').value = 'not the right token'; "
            + "document.querySelector('form').requestSubmit(); })()");
        await browser.UntilAsync("document.querySelector('[role=alert]')?.textContent === 'The token is wrong'");
        await browser.EvaluateAsync($"(() => {{ document.querySelector('#token').value = '{Site.Token}'; "
            + "document.querySelector('form').requestSubmit(); })()");
        await browser.UntilAsync("document.querySelector('#state.open')");
        Assert.Equal("", await browser.EvaluateAsync("document.cookie"));
        await browser.EvaluateAsync($"void (location.hash = '#connection?id={session.Id:x}')");
        await browser.UntilAsync("document.querySelector('main .risky')?.textContent === 'Close'");
        await browser.EvaluateAsync("document.querySelector('main .risky').click()");
        await browser.EvaluateAsync("document.querySelector('#confirm button[value=no]').click()");
        Assert.True(session.IsConnected);
        await browser.EvaluateAsync("document.querySelector('main .risky').click()");
        await browser.EvaluateAsync("document.querySelector('#confirm button[value=yes]').click()");
        await browser.UntilAsync("document.querySelector('#message').textContent.includes('done')");
        await KeyAsync(browser, "5");
        await browser.UntilAsync("document.querySelector('tbody')?.textContent.includes('closed Echo')");
    }
}
