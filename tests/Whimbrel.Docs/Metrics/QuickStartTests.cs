using System.Diagnostics;

namespace Whimbrel.Docs.Metrics;

// The program of the guide that sends its metrics and traces by OTLP, started as it is there, with a receiver.
public sealed class QuickStartTests : IDisposable
{
    private readonly string _folder = Directory.CreateTempSubdirectory("whimbrel-otlp-").FullName;

    public void Dispose() => Directory.Delete(_folder, recursive: true);

    [Fact]
    public async Task The_program_of_the_guide_sends_its_metrics_and_traces_to_a_collector()
    {
        await using var receiver = await OtlpReceiver.StartAsync();
        await using (RunningProgram program = new(Process.Start(Describe(receiver.Address))!))
        {
            await program.ListensAsync();
            using (var client = await program.ConnectAsync())
                Assert.Equal("hello", await TemplateExchanges.AskAsync(client, "hello\n"));
            await receiver.HasAsync("whimbrel.server.io"); // a server that has stopped reports nothing
            await program.StopAsync();
        }

        Assert.Equal("chat", receiver.Resource["service.name"]);
        Assert.Equal("By", receiver.Units["whimbrel.server.io"]);
        Assert.Equal("{connection}", receiver.Units["whimbrel.server.active_connections"]);
        Assert.Equal("s", receiver.Units["whimbrel.server.connection.duration"]);
        Assert.Equal("By", receiver.Units["whimbrel.loop.engine_memory"]);
        Assert.Equal(1, receiver.Sources["Whimbrel.Connections"]);
        var page = File.ReadAllText(Repository.PathOf("docs/guide/metrics.md"));
        Assert.All(receiver.Units, metric => Assert.True(IsInGuide(page, metric.Key, metric.Value), metric.ToString()));
    }

    // A row with several names has the last part of those after the first.
    private static bool IsInGuide(string page, string name, string unit) => page.Split('\n').Any(row =>
        row.StartsWith("| `", StringComparison.Ordinal) && row.Contains($"`{unit}`", StringComparison.Ordinal)
        && (row.Contains($"`{name}`", StringComparison.Ordinal)
            || row.Contains($"`{name[name.LastIndexOf('.')..]}`", StringComparison.Ordinal)));

    // Compiled from the page, beside what this test refers to.
    private ProcessStartInfo Describe(string collector)
    {
        const string Page = "docs/guide/metrics.md";
        var snippet = Assert.Single(Snippet.Of(Page, File.ReadAllText(Repository.PathOf(Page))),
            static s => s.Code.Contains("UseOtlpExporter", StringComparison.Ordinal));
        var (errors, assembly) = SnippetCompiler.Compile(snippet, []);
        Assert.Empty(errors);
        foreach (var file in Directory.EnumerateFiles(AppContext.BaseDirectory, "*.dll"))
            File.CreateSymbolicLink(Path.Combine(_folder, Path.GetFileName(file)), file);
        File.WriteAllBytes(Path.Combine(_folder, "Snippet.dll"), assembly);
        foreach (var kind in (string[])["deps", "runtimeconfig"])
            File.Copy(Path.Combine(AppContext.BaseDirectory, $"Whimbrel.Docs.{kind}.json"),
                Path.Combine(_folder, $"Snippet.{kind}.json"));
        var start = Command.Describe(_folder, "dotnet", Path.Combine(_folder, "Snippet.dll"),
            "--Chat:Address=tcp://127.0.0.1:0");
        start.Environment["OTEL_SERVICE_NAME"] = "chat";
        start.Environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector;
        start.Environment["OTEL_EXPORTER_OTLP_PROTOCOL"] = "http/protobuf";
        start.Environment["OTEL_METRIC_EXPORT_INTERVAL"] = "500";
        return start;
    }
}
