using System.Text.Json;

namespace Whimbrel.Tool.Tests;

// One run of whimbrel bench with its report. Figures are reported also on a busy machine.
internal sealed record LoadRun(int ExitCode, JsonElement Report, string Text)
{
    public JsonElement Cell => Report.GetProperty("cells")[0];

    public static async Task<LoadRun> RunAsync(params string[] arguments)
    {
        (int code, List<string> output, List<string> errors) = await RunningTool.Run(null,
            ["bench", .. arguments, "--json", "-", "--report-limited"]);
        string text = string.Join('\n', errors);
        Assert.True(output.Count > 0, text);
        using JsonDocument document = JsonDocument.Parse(string.Join('\n', output));
        return new LoadRun(code, document.RootElement.Clone(), text);
    }

    public long Count(string name) => Cell.GetProperty(name).GetInt64();

    public double LatencyMs(string percentile) => Ms("latency_ns", percentile);

    public double ServiceMs(string percentile) => Ms("service_ns", percentile);

    private double Ms(string times, string percentile) =>
        Cell.GetProperty(times).GetProperty(percentile).GetDouble() / 1e6;
}
