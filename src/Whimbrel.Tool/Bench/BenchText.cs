using System.Globalization;

namespace Whimbrel.Tool.Bench;

/// <summary>Formats settings, progress and results for people. Pure.</summary>
internal static class BenchText
{
    private const int BarWidth = 20;
    private const string None = "-";

    private static readonly int[] s_widths = [-11, 10, 11, 9, 9, 9, 9, 9, 9, 8];

    internal static string Header { get; } = Row("connections", "rate/s", "answers/s", "p50", "p90", "p99", "p99.9",
        "p99.99", "max", "errors");

    internal static string Title(BenchSettings settings, string engine) => string.Create(CultureInfo.InvariantCulture,
        $"{settings.Protocol.ToString().ToLowerInvariant()} {settings.Address}, "
        + $"{(settings.Protocol == BenchProtocol.Http ? "GET" : UnitText.FormatBytes(settings.SizeBytes))}, "
        + $"{(settings.IsClosed ? "CLOSED" : "open")} loop, at most {settings.InFlight} in flight on a connection, "
        + $"engine {engine}, {settings.Loops} {(settings.Loops == 1 ? "loop" : "loops")}");

    internal static string WhatIsMeasured(BenchSettings settings) => settings.IsClosed
        ? "closed loop: each answer is followed by the next message, so a pause delays few messages and the latencies "
            + "look better than those of independent clients"
        : "latency counts from the moment at which a message was due, so a pause counts for every message of that time";

    internal static string Begin(BenchSettings settings, int connections, int rate) => string.Create(
        CultureInfo.InvariantCulture,
        $"{connections:n0} {(connections == 1 ? "connection" : "connections")}, {RateOf(rate)}: "
        + $"{UnitText.RoundTime(settings.WarmUp)} warm-up, {UnitText.RoundTime(settings.Duration)} measured");

    internal static string ProgressRow(CellProgress p)
    {
        string bar = new string('#', (int)(p.Done * BarWidth)).PadRight(BarWidth, '.');
        string row = Row(Count(p.Connections), p.Rate == 0 ? "closed" : Count(p.Rate),
            p.Seconds > 0 ? Count((long)(p.Answered / p.Seconds)) : None, Time(p.P50), None, Time(p.P99), None, None,
            Time(p.Max), Count(p.Errors));
        return $"{row}  [{bar}]{(p.IsWarmUp ? " warm-up" : "")}";
    }

    internal static string ResultRow(CellResult cell)
    {
        string connections = Count(cell.Connections), rate = cell.Rate == 0 ? "closed" : Count(cell.Rate);
        string errors = Count(cell.Figures.Errors.Total + cell.Figures.Lost);
        if (cell.IsRefused)
            return Row(connections, rate, "refused", None, None, None, None, None, None, errors);
        return Row(
        [
            connections, rate, Count((long)Math.Round(cell.PerSecond)),
            .. ((double[])[50, 90, 99, 99.9, 99.99]).Select(p =>
                Percentiles.Of(cell.Figures.Latency, p) is { } ns ? Time(ns) : None),
            Time(Percentiles.MaxOf(cell.Figures.Latency)), errors,
        ]);
    }

    /// <summary>Returns what a reader of the row must know, in lines.</summary>
    internal static IEnumerable<string> Notes(CellResult cell, BenchSettings settings, int cpus)
    {
        LoadFigures figures = cell.Figures;
        string place = string.Create(CultureInfo.InvariantCulture,
            $"{cell.Connections:n0} connection{(cell.Connections == 1 ? "" : "s")}, {RateOf(cell.Rate)}");
        foreach (string limit in cell.Driver.Explain(settings.Loops, cpus))
        {
            yield return cell.IsRefused
                ? $"{place}: REFUSED, the driver was the limit: {limit} --report-limited reports it anyway."
                : $"{place}: the driver was the limit: {limit}";
        }

        if (cell.IsInterrupted)
            yield return string.Create(CultureInfo.InvariantCulture,
                $"{place}: interrupted after {cell.Seconds:0.0} s of the measured time");
        if (figures.Unanswered > 0)
            yield return string.Create(CultureInfo.InvariantCulture,
                $"{place}: {figures.Unanswered:n0} messages had no answer {UnitText.RoundTime(settings.Patience)} "
                + $"after the end. They count with their age, so high percentiles are at least so long");
        if (figures.Lost > 0)
            yield return string.Create(CultureInfo.InvariantCulture,
                $"{place}: {figures.Lost:n0} of {figures.Sent:n0} messages were lost, and are in no percentile");
        foreach ((string kind, (long count, string example)) in figures.Errors.Kinds)
            yield return string.Create(CultureInfo.InvariantCulture, $"{place}: {kind} {count:n0} times ({example})");
        if (figures.Errors.Statuses.Count > 0)
            yield return $"{place}: status " + string.Join(", ", figures.Errors.Statuses.Select(static s =>
                string.Create(CultureInfo.InvariantCulture, $"{s.Key} {s.Value:n0} times")));
        yield return DriverLine(cell, place);
    }

    /// <summary>Says that the target does not answer as the load needs, and what does.</summary>
    internal static string NoEcho(BenchSettings settings, string failure)
    {
        string command = settings.Protocol.ToString().ToLowerInvariant();
        string needed = settings.Protocol switch
        {
            BenchProtocol.Tcp => "a server that sends every byte back, such as whimbrel serve echo",
            BenchProtocol.Tls => "a TLS server that sends every byte back, such as whimbrel serve echo --tls",
            BenchProtocol.Ws => "a server that sends every binary message back, such as whimbrel serve ws",
            BenchProtocol.Http => "a server that answers GET, such as whimbrel serve http",
            _ => "a server that sends every datagram back, such as whimbrel serve udp",
        };
        return $"{settings.Address} did not answer the first message: {failure.TrimEnd('.')}. bench {command} needs "
            + $"{needed}.";
    }

    private static string DriverLine(CellResult cell, string place)
    {
        DriverFigures driver = cell.Driver;
        string server = cell.ServerNs is { } ns ? $"; the server used {Time((long)ns)} of cpu for each answer" : "";
        string late = cell.Rate == 0 ? "" : string.Create(CultureInfo.InvariantCulture,
            $", messages left {Time(Percentiles.Of(cell.Figures.Lateness, 50) ?? 0)} (p50) and "
            + $"{Time(Percentiles.Of(cell.Figures.Lateness, 99) ?? 0)} (p99) late");
        return string.Create(CultureInfo.InvariantCulture,
            $"{place}: the driver used {driver.Cpu:0 %} of a cpu{late}{server}");
    }

    private static string RateOf(int rate) => rate == 0
        ? "closed loop"
        : string.Create(CultureInfo.InvariantCulture, $"{rate:n0} messages a second");

    private static string Count(long count) => count.ToString("n0", CultureInfo.InvariantCulture);

    private static string Time(long ns) => ns == 0 ? None : NsText.Of(ns);

    private static string Row(params ReadOnlySpan<string> cells)
    {
        System.Text.StringBuilder row = new();
        for (int i = 0; i < cells.Length; i++)
        {
            if (i > 0) row.Append(' ');
            row.Append(s_widths[i] < 0 ? cells[i].PadRight(-s_widths[i]) : cells[i].PadLeft(s_widths[i]));
        }

        return row.ToString();
    }
}
