using System.Runtime.InteropServices;
using System.Text;
using System.Text.Json;

namespace Whimbrel.Tool.Doctor;

/// <summary>
/// <c>whimbrel doctor</c>: checks the system for settings that slow a server down, with the command that changes them.
/// It changes nothing. Exit code 0: no advice; 1: at least one advice. Skipped checks do not count.
/// </summary>
internal static class DoctorCommand
{
    internal static async Task<int> RunAsync(int loops, string? app, int? port, bool asJson)
    {
        string? runtimeConfig = app is null ? null : File.ReadAllText(app);
        GarbageCollector? collector = GarbageCollector.Of(Environment.GetEnvironmentVariable,
            app is null ? "" : Path.GetFileName(app), runtimeConfig);
        List<Finding> findings = Examination.Of(new Examined(new SystemTree(""), Engine.SupportFor,
            Environment.ProcessorCount, loops == 0 ? Environment.ProcessorCount : loops, collector));
        if (port is { } number) findings.Add(await PortCheck.OfAsync(number));
        await Console.Out.WriteAsync(asJson ? Json(findings) : Text(findings));
        return ExitCodeOf(findings);
    }

    internal static int ExitCodeOf(List<Finding> findings) =>
        findings.Any(static f => f.Verdict == Verdict.Advice) ? ExitCode.Failed : ExitCode.Done;

    /// <summary>Prints a line per finding, and another one with its fix.</summary>
    internal static string Text(List<Finding> findings)
    {
        int width = findings.Max(static f => f.Name.Length);
        StringBuilder text = new();
        text.Append(System).Append('\n');
        foreach (Finding f in findings)
        {
            text.Append(Word(f.Verdict).PadRight(8)).Append(f.Name.PadRight(width)).Append("  ").Append(f.Text)
                .Append('\n');
            if (f.Fix.Length > 0) text.Append(' ', 8 + width).Append("  -> ").Append(f.Fix).Append('\n');
        }

        text.Append($"{Count(findings, Verdict.Ok)} ok, {Count(findings, Verdict.Advice)} advice, "
            + $"{Count(findings, Verdict.Skipped)} skipped\n");
        return text.ToString();
    }

    internal static string Json(List<Finding> findings)
    {
        using MemoryStream bytes = new();
        using (Utf8JsonWriter json = new(bytes, new JsonWriterOptions
        {
            Indented = true,
            Encoder = global::System.Text.Encodings.Web.JavaScriptEncoder.UnsafeRelaxedJsonEscaping
        }))
        {
            json.WriteStartObject();
            json.WriteString("system", System);
            json.WriteNumber("ok", Count(findings, Verdict.Ok));
            json.WriteNumber("advice", Count(findings, Verdict.Advice));
            json.WriteNumber("skipped", Count(findings, Verdict.Skipped));
            json.WriteStartArray("findings");
            foreach (Finding f in findings)
            {
                json.WriteStartObject();
                json.WriteString("name", f.Name);
                json.WriteString("verdict", Word(f.Verdict));
                json.WriteString("text", f.Text);
                if (f.Fix.Length > 0) json.WriteString("fix", f.Fix);
                json.WriteEndObject();
            }

            json.WriteEndArray();
            json.WriteEndObject();
        }

        return Encoding.UTF8.GetString(bytes.ToArray()) + "\n";
    }

    private static string System =>
        $"{RuntimeInformation.OSDescription}, {RuntimeInformation.ProcessArchitecture.ToString().ToLowerInvariant()}, "
        + $"{RuntimeInformation.FrameworkDescription}";

    private static string Word(Verdict verdict) => verdict.ToString().ToLowerInvariant();

    private static int Count(List<Finding> findings, Verdict verdict) => findings.Count(f => f.Verdict == verdict);
}
