using System.Globalization;

namespace Whimbrel.Tool.Tests;

// The test server, requested with curl.
public class HttpTests
{
    private static async Task<string> CurlAsync(params string[] arguments)
    {
        var (code, output) = await OtherProgram.RunAsync("curl",
            ["--silent", "--show-error", "--max-time", "60", .. arguments]);
        Assert.True(code == 0, $"curl {string.Join(' ', arguments)}: {code} {output}");
        return output;
    }

    [Fact]
    public async Task It_answers_what_it_lists()
    {
        OtherProgram.Needs("curl");
        await using var tool = await RunningTool.Serve("http");
        var site = $"http://{tool.Address}";
        Assert.Contains("/bytes/N", await CurlAsync(site), StringComparison.Ordinal);
        foreach (var length in (int[])[0, 1, 100, 5_000_000])
            Assert.Equal(length.ToString(CultureInfo.InvariantCulture),
                await CurlAsync("-o", "/dev/null", "-w", "%{size_download}", $"{site}/bytes/{length}"));
        Assert.Equal("10 ms\n", await CurlAsync($"{site}/delay/10"));
        foreach (var status in (string[])["200", "204", "304", "404", "418", "503"])
            Assert.Equal(status, await CurlAsync("-o", "/dev/null", "-w", "%{http_code}", $"{site}/status/{status}"));
        Assert.Equal("400", await CurlAsync("-o", "/dev/null", "-w", "%{http_code}", $"{site}/status/1000"));
        Assert.Contains("{\"name\":\"X-Own\",\"value\":\"a b\"}",
            await CurlAsync("-H", "X-Own: a b", $"{site}/headers"), StringComparison.Ordinal);
        Assert.Equal("404", await CurlAsync("-o", "/dev/null", "-w", "%{http_code}", $"{site}/cache?key=a%26b"));
        Assert.Equal("201",
            await CurlAsync("-X", "PUT", "-d", "value", "-w", "%{http_code}", $"{site}/cache?x=y&key=a%26b"));
        Assert.Equal("value", await CurlAsync($"{site}/cache?key=a%26b"));
        Assert.Equal("204", await CurlAsync("-X", "DELETE", "-w", "%{http_code}", $"{site}/cache?key=a%26b"));
        Assert.Contains("drained", await tool.StopAsync(), StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("")]
    [InlineData("Transfer-Encoding: chunked")]
    [InlineData("Expect: 100-continue")]
    public async Task A_body_comes_back_whichever_way_it_is_sent(string field)
    {
        OtherProgram.Needs("curl");
        await using var tool = await RunningTool.Serve("http");
        using var folder = new TemporaryFolder();
        string sent = Path.Combine(folder.Path, "sent"), got = Path.Combine(folder.Path, "got");
        var bytes = new byte[3_000_000];
        new Random(3).NextBytes(bytes);
        await File.WriteAllBytesAsync(sent, bytes, TestContext.Current.CancellationToken);
        await CurlAsync([.. field.Length > 0 ? (string[])["-H", field] : [], "--data-binary", $"@{sent}", "-o", got,
            $"http://{tool.Address}/echo"]);
        Assert.Equal(bytes, await File.ReadAllBytesAsync(got, TestContext.Current.CancellationToken));
    }

    [Fact]
    public async Task A_folder_is_served_whole_in_parts_and_over_TLS()
    {
        OtherProgram.Needs("curl");
        using var folder = new TemporaryFolder();
        var bytes = new byte[2_000_000];
        new Random(4).NextBytes(bytes);
        Directory.CreateDirectory(folder["root"]);
        await File.WriteAllBytesAsync(folder["root/large.bin"], bytes, TestContext.Current.CancellationToken);
        await File.WriteAllTextAsync(folder["root/index.html"], "home", TestContext.Current.CancellationToken);
        await File.WriteAllTextAsync(folder["secret"], "secret", TestContext.Current.CancellationToken);
        foreach (var isTls in (bool[])[false, true])
        {
            await using var tool = await RunningTool.Serve("http",
                ["--files", folder["root"], .. isTls ? (string[])["--tls"] : []]);
            var site = $"{(isTls ? "https" : "http")}://{tool.Address}";
            Assert.Equal("home", await CurlAsync("--insecure", site));
            Assert.Equal("404", await CurlAsync("--insecure", "--path-as-is", "-o", "/dev/null", "-w", "%{http_code}",
                $"{site}/../secret"));
            await CurlAsync("--insecure", "-o", folder["whole"], $"{site}/large.bin");
            Assert.Equal(bytes, await File.ReadAllBytesAsync(folder["whole"], TestContext.Current.CancellationToken));
            Assert.Equal("206 1000", await CurlAsync("--insecure", "-r", "500000-500999", "-o", folder["part"], "-w",
                "%{http_code} %{size_download}", $"{site}/large.bin"));
            Assert.Equal(bytes[500_000..501_000],
                await File.ReadAllBytesAsync(folder["part"], TestContext.Current.CancellationToken));
            await File.WriteAllBytesAsync(folder["begun"], bytes[..1_234_567], TestContext.Current.CancellationToken);
            Assert.Equal("206", await CurlAsync("--insecure", "-C", "-", "-o", folder["begun"], "-w", "%{http_code}",
                $"{site}/large.bin"));
            Assert.Equal(bytes, await File.ReadAllBytesAsync(folder["begun"], TestContext.Current.CancellationToken));
            await CurlAsync("--insecure", "--etag-save", folder["tag"], "-o", "/dev/null", $"{site}/large.bin");
            Assert.Equal("304 0", await CurlAsync("--insecure", "--etag-compare", folder["tag"], "-o", folder["none"],
                "-w", "%{http_code} %{size_download}", $"{site}/large.bin"));
        }
    }

    [Fact]
    public async Task One_connection_serves_many_requests_also_over_TLS()
    {
        OtherProgram.Needs("curl");
        foreach (var isTls in (bool[])[false, true])
        {
            await using var tool = await RunningTool.Serve("http", isTls ? ["--tls"] : []);
            var site = $"{(isTls ? "https" : "http")}://{tool.Address}";
            var seen = await CurlAsync("--insecure", "-o", "/dev/null", "-o", "/dev/null", "-o", "/dev/null", "-w",
                "%{num_connects} %{http_code},", $"{site}/bytes/1", $"{site}/bytes/2", $"{site}/bytes/3");
            Assert.Equal("1 200,0 200,0 200,", seen);
            Assert.Contains("Content-Length: 7", await CurlAsync("--insecure", "--head", $"{site}/bytes/7"),
                StringComparison.Ordinal);
        }
    }
}
