using System.Globalization;
using System.Text.Json;
using Whimbrel.Tool.Bench;

namespace Whimbrel.Tool.Plot;

/// <summary>Reads the files of <c>whimbrel plot</c>: reports of whimbrel bench and summaries of bench/readme.</summary>
internal static class PlotReader
{
    private const long MostBytes = 64 << 20;

    /// <exception cref="PlotException">The file cannot be read, or is neither.</exception>
    internal static PlotFile Read(string path)
    {
        try
        {
            if (new FileInfo(path).Length > MostBytes)
                throw new PlotException($"{path} is larger than {UnitText.FormatBytes(MostBytes)}.");
            using JsonDocument document = JsonDocument.Parse(File.ReadAllBytes(path));
            return Read(document.RootElement, Path.GetFileNameWithoutExtension(path), path);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            throw new PlotException($"{path} cannot be read: {e.Message}");
        }
        catch (Exception e) when (e is JsonException or InvalidOperationException or KeyNotFoundException
            or FormatException)
        {
            throw new PlotException($"{path} is not a complete report: {e.Message}");
        }
    }

    private static PlotFile Read(JsonElement root, string name, string path)
    {
        if (root.ValueKind != JsonValueKind.Object) throw NoReport(path);
        if (root.TryGetProperty("schema", out JsonElement schema))
        {
            if (schema.GetString() != BenchReport.Schema)
                throw new PlotException($"{path} has schema '{schema}', and this version reads {BenchReport.Schema}.");
            return new PlotFile([.. root.GetProperty("cells").EnumerateArray().Select(c => CellOf(c, name))],
                SourceOf(root, root.GetProperty("time"), root.GetProperty("tool").GetProperty("commit")), false);
        }

        if (!root.TryGetProperty("rows", out JsonElement rows) || !root.TryGetProperty("date", out JsonElement date))
            throw NoReport(path);
        return new PlotFile([.. rows.EnumerateArray().Where(static r => r.TryGetProperty("server_ns", out _))
            .Select(RowOf)], SourceOf(root, date, root.GetProperty("commit")), true);
    }

    private static PlotException NoReport(string path) => new($"{path} is neither a report of whimbrel bench "
        + "(--json FILE) nor a summary of bench/readme.");

    private static PlotCell CellOf(JsonElement cell, string file)
    {
        int connections = cell.GetProperty("connections").GetInt32();
        int rate = cell.TryGetProperty("rate", out JsonElement due) ? due.GetInt32() : 0;
        double? server = Number(cell, "server_ns");
        return new PlotCell(string.Create(CultureInfo.InvariantCulture,
            $"{connections:n0} {(connections == 1 ? "connection" : "connections")}, "
            + $"{(rate == 0 ? "closed loop" : $"{rate.ToString("n0", CultureInfo.InvariantCulture)}/s")}"), file)
        {
            Connections = connections,
            Rate = rate,
            PerSecond = Number(cell, "per_second"),
            ServerNs = server is { } ns ? (ns, ns, ns) : null,
            Curve = cell.TryGetProperty("curve", out JsonElement curve)
                ? [.. curve.EnumerateArray().Select(static p => (p[0].GetDouble(), p[1].GetDouble()))]
                : [],
        };
    }

    private static PlotCell RowOf(JsonElement row)
    {
        JsonElement server = row.GetProperty("server_ns");
        return new PlotCell(row.GetProperty("scenario").GetString() ?? "", row.GetProperty("peer").GetString() ?? "")
        {
            ServerNs = (server[0].GetDouble(), server[1].GetDouble(), server[2].GetDouble())
        };
    }

    private static double? Number(JsonElement cell, string name) =>
        cell.TryGetProperty(name, out JsonElement value) ? value.GetDouble() : null;

    private static string SourceOf(JsonElement root, JsonElement time, JsonElement commit)
    {
        JsonElement machine = root.GetProperty("machine");
        string hash = commit.GetString() is { Length: > 0 } known ? $", commit {known[..Math.Min(10, known.Length)]}"
            : "";
        string release = string.Join('.', (machine.GetProperty("kernel").GetString() ?? "").Split('.').Take(2));
        return $"{time.GetString()![..10]}{hash}, {machine.GetProperty("cpu").GetString()}, "
            + $"{machine.GetProperty("cores").GetInt32()} cpus, Linux {release}";
    }
}
