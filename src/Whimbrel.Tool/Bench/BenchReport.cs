using System.Text;
using System.Text.Encodings.Web;
using System.Text.Json;
using HdrHistogram;

namespace Whimbrel.Tool.Bench;

/// <summary>The JSON report. Its schema is documented in docs/guide/load.md; a change that breaks a reader gets a new
/// number.</summary>
internal static class BenchReport
{
    internal const string Schema = "whimbrel-bench/1";

    private const int ShareDigits = 5;
    private const int CurveDigits = 6;

    private static readonly JsonWriterOptions s_form = new()
    {
        Indented = true,
        NewLine = "\n",
        Encoder = JavaScriptEncoder.UnsafeRelaxedJsonEscaping
    };

    /// <param name="settings">Settings of the run.</param>
    /// <param name="machine">The machine.</param>
    /// <param name="engine">Name of the driver's engine.</param>
    /// <param name="time">Begin of the run.</param>
    /// <param name="cells">The results.</param>
    internal static string Of(BenchSettings settings, MachineFacts machine, string engine, DateTimeOffset time,
        IEnumerable<CellResult> cells)
    {
        using MemoryStream bytes = new();
        using (Utf8JsonWriter json = new(bytes, s_form))
        {
            json.WriteStartObject();
            json.WriteString("schema", Schema);
            json.WriteString("time", time.UtcDateTime.ToString("yyyy-MM-ddTHH:mm:ssZ",
                System.Globalization.CultureInfo.InvariantCulture));
            WriteTool(json, machine);
            WriteMachine(json, machine);
            WriteLoad(json, settings, engine);
            json.WriteStartArray("cells");
            foreach (CellResult cell in cells) WriteCell(json, cell);
            json.WriteEndArray();
            json.WriteEndObject();
        }

        return Encoding.UTF8.GetString(bytes.ToArray()) + "\n";
    }

    private static void WriteTool(Utf8JsonWriter json, MachineFacts machine)
    {
        json.WriteStartObject("tool");
        json.WriteString("version", machine.Version);
        json.WriteString("commit", machine.Commit);
        json.WriteEndObject();
    }

    private static void WriteMachine(Utf8JsonWriter json, MachineFacts machine)
    {
        json.WriteStartObject("machine");
        json.WriteString("cpu", machine.Cpu);
        json.WriteNumber("cores", machine.Cores);
        json.WriteString("kernel", machine.Kernel);
        json.WriteString("architecture", machine.Architecture);
        json.WriteNumber("memory_mib", machine.MemoryMiB);
        json.WriteString("runtime", machine.Runtime);
        json.WriteEndObject();
    }

    private static void WriteLoad(Utf8JsonWriter json, BenchSettings settings, string engine)
    {
        json.WriteStartObject("load");
        json.WriteString("protocol", settings.Protocol.ToString().ToLowerInvariant());
        json.WriteString("address", settings.Address);
        json.WriteString("loop", settings.IsClosed ? "closed" : "open");
        if (settings.Protocol != BenchProtocol.Http) json.WriteNumber("size", settings.SizeBytes);
        json.WriteNumber("in_flight", settings.InFlight);
        json.WriteNumber("warmup_s", settings.WarmUp.TotalSeconds);
        json.WriteNumber("duration_s", settings.Duration.TotalSeconds);
        json.WriteNumber("timeout_s", settings.Patience.TotalSeconds);
        json.WriteString("engine", engine);
        json.WriteNumber("loops", settings.Loops);
        json.WriteEndObject();
    }

    private static void WriteCell(Utf8JsonWriter json, CellResult cell)
    {
        LoadFigures figures = cell.Figures;
        json.WriteStartObject();
        json.WriteNumber("connections", cell.Connections);
        if (cell.Rate > 0) json.WriteNumber("rate", cell.Rate);
        json.WriteNumber("seconds", Math.Round(cell.Seconds, 3));
        json.WriteBoolean("interrupted", cell.IsInterrupted);
        json.WriteBoolean("refused", cell.IsRefused);
        json.WriteNumber("due", figures.Due);
        json.WriteNumber("sent", figures.Sent);
        json.WriteNumber("answered", figures.Answered);
        json.WriteNumber("unanswered", figures.Unanswered);
        json.WriteNumber("lost", figures.Lost);
        json.WriteNumber("repeated", figures.Repeated);
        json.WriteNumber("reconnects", figures.Reconnects);
        WriteErrors(json, figures.Errors);
        WriteDriver(json, cell);
        if (!cell.IsRefused) WriteResult(json, cell);
        json.WriteEndObject();
    }

    private static void WriteErrors(Utf8JsonWriter json, ErrorCounts errors)
    {
        json.WriteStartObject("errors");
        foreach ((string kind, (long count, _)) in errors.Kinds) json.WriteNumber(kind, count);
        json.WriteEndObject();
        json.WriteStartObject("status");
        foreach ((int status, long count) in errors.Statuses)
            json.WriteNumber(status.ToString(System.Globalization.CultureInfo.InvariantCulture), count);
        json.WriteEndObject();
    }

    private static void WriteDriver(Utf8JsonWriter json, CellResult cell)
    {
        DriverFigures driver = cell.Driver;
        json.WriteStartObject("driver");
        json.WriteNumber("cpu", Math.Round(driver.Cpu, ShareDigits));
        json.WriteNumber("waited", Math.Round(driver.Queued, ShareDigits));
        json.WriteNumber("late", Math.Round(driver.LateShare, ShareDigits));
        json.WriteNumber("away", Math.Round(driver.AwayShare, ShareDigits));
        json.WriteStartArray("limits");
        foreach (string limit in driver.Limits) json.WriteStringValue(limit);
        json.WriteEndArray();
        WriteTimes(json, "late_ns", cell.Figures.Lateness);
        json.WriteEndObject();
    }

    private static void WriteResult(Utf8JsonWriter json, CellResult cell)
    {
        json.WriteNumber("per_second", Math.Round(cell.PerSecond, 1));
        if (cell.ServerNs is { } ns) json.WriteNumber("server_ns", Math.Round(ns, 1));
        WriteTimes(json, "latency_ns", cell.Figures.Latency);
        WriteTimes(json, "service_ns", cell.Figures.Service);
        json.WriteStartArray("curve");
        foreach ((double percent, long value) in Percentiles.CurveOf(cell.Figures.Latency))
        {
            json.WriteStartArray();
            json.WriteNumberValue(Math.Round(percent, CurveDigits));
            json.WriteNumberValue(value);
            json.WriteEndArray();
        }

        json.WriteEndArray();
    }

    private static void WriteTimes(Utf8JsonWriter json, string name, LongHistogram histogram)
    {
        json.WriteStartObject(name);
        foreach ((string percentile, double percent) in Percentiles.All)
        {
            if (Percentiles.Of(histogram, percent) is { } ns) json.WriteNumber(percentile, ns);
        }

        json.WriteNumber("max", Percentiles.MaxOf(histogram));
        json.WriteEndObject();
    }
}
