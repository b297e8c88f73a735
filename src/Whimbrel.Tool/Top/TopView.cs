using System.Globalization;
using System.Text;

namespace Whimbrel.Tool.Top;

/// <summary>Formats two successive snapshots as text, with rates from their difference. Pure.</summary>
internal static class TopView
{
    /// <summary>Formats a screen of limited lines and characters.</summary>
    internal static List<string> Screen(TopSnapshot? before, TopSnapshot now, int width, int height)
    {
        Span span = new(before, now);
        List<string> lines = [Head(now), Memory(now)];
        AddServers(lines, span);
        AddSlowest(lines, now);
        AddLoops(lines, span);
        AddNotices(lines, now);
        int most = Math.Max(1, height);
        if (lines.Count > most)
        {
            int hidden = lines.Count - most + 1;
            lines.RemoveRange(most - 1, hidden);
            lines.Add($"({hidden} more lines: a higher terminal, or --json)");
        }

        for (int i = 0; i < lines.Count; i++)
        {
            string line = Clean(lines[i]).TrimEnd();
            lines[i] = line.Length > width ? line[..width] : line;
        }

        return lines;
    }

    /// <summary>Formats one line for a log.</summary>
    internal static string Line(TopSnapshot before, TopSnapshot now)
    {
        Span span = new(before, now);
        StringBuilder line = new();
        line.Append(CultureInfo.InvariantCulture,
            $"{now.Servers.Sum(static s => (long)s.Sessions)} connections, {span.OfServers(static s => s.Accepted)} "
            + $"new/s, {span.OfServers(static s => s.MessagesReceived)} messages/s, ");
        line.Append(CultureInfo.InvariantCulture, $"{span.BytesOfServers(static s => s.BytesReceived)}/s "
            + $"in, {span.BytesOfServers(static s => s.BytesSent)}/s out, "
            + $"{UnitText.RoundBytes(now.Servers.Sum(static s => s.BytesPending))} queued, ");
        line.Append(CultureInfo.InvariantCulture, $"{now.Servers.Sum(static s => s.TurnedAway)} turned away, "
            + $"{now.Servers.Sum(static s => s.SlowConsumers)} slow ended, {now.Engine.UserExceptions} exceptions");
        foreach (TopLoop loop in now.Loops)
        {
            if (loop.Running is { } running)
                line.Append(CultureInfo.InvariantCulture, $"; loop {loop.Index} is blocked by {running}");
        }

        return Clean(line.ToString());
    }

    private static string Head(TopSnapshot now)
    {
        TopEngine engine = now.Engine;
        string started = now.Servers.Length > 0 ? string.Create(CultureInfo.InvariantCulture,
            $", since {now.Servers.Min(static s => s.StartedAt).UtcDateTime:yyyy-MM-dd HH:mm:ss}Z") : "";
        return string.Create(
            CultureInfo.InvariantCulture,
            $"process {now.Pid}, {engine.Kind}, {now.Loops.Length} "
            + $"{(now.Loops.Length == 1 ? "loop" : "loops")}{started}; mailboxes "
            + $"{UnitText.RoundBytes(engine.MailboxBytes)}, refused {engine.SendsRefused} sends, "
            + $"{engine.BroadcastsRefused} broadcasts; {engine.UserExceptions} exceptions");
    }

    /// <summary>Returns the native memory; empty for a server that does not report it.</summary>
    private static string Memory(TopSnapshot now)
    {
        long engine = now.Loops.Sum(static l => l.EngineBytes), blocks = now.Loops.Sum(static l => l.BlockBytes);
        if (engine == 0) return "";
        string heap = now.Engine.HeapUsedBytes > 0 ? $", C heap {UnitText.RoundBytes(now.Engine.HeapUsedBytes)}" : "";
        return $"native memory: blocks {UnitText.RoundBytes(blocks)}, engine {UnitText.RoundBytes(engine)}{heap}; "
            + $"{Count(now.Loops.Sum(static l => l.TlsConnections))} connections in OpenSSL";
    }

    private static void AddServers(List<string> lines, Span span)
    {
        lines.Add(Row("SERVER", -30, "CONNS", 8, "NEW/S", 8, "AWAY", 7, "MSGS/S", 10, "IN/S", 10, "OUT/S", 10, "QUEUED",
            10, "SLOW", 6, "DROPPED", 9));
        foreach (TopServer server in span.Now.Servers)
        {
            TopServer? earlier = span.Before?.Servers.FirstOrDefault(server.IsSame);
            lines.Add(Row(
                NameOf(server), -30, Count(server.Sessions), 8, span.Rate(earlier?.Accepted, server.Accepted), 8,
                Count(server.TurnedAway), 7, span.Rate(earlier?.MessagesReceived, server.MessagesReceived), 10,
                span.Bytes(earlier?.BytesReceived, server.BytesReceived), 10,
                span.Bytes(earlier?.BytesSent, server.BytesSent), 10, UnitText.RoundBytes(server.BytesPending), 10,
                Count(server.SlowConsumers), 6, Count(server.BroadcastsDropped), 9));
            if (server.Tls)
                lines.Add($"  TLS: {span.Rate(earlier?.TlsHandshakes, server.TlsHandshakes)} handshakes/s, "
                    + $"{Count(server.TlsFailed)} failed");
            if (server.GroupCount > 0) lines.Add($"  {Count(server.GroupCount)} groups: {LargestGroups(server)}");
        }

        if (span.Now.ServersLeftOut > 0) lines.Add($"({Count(span.Now.ServersLeftOut)} more servers)");
        lines.Add("");
    }

    private static string LargestGroups(TopServer server) => string.Join(", ",
        (server.Groups ?? []).OfType<TopGroup>().Select(static g => $"{g.Name} ({Count(g.Members)})"));

    private static string NameOf(TopServer server)
    {
        string more = server.Addresses.Length > 1 ? $" +{Count(server.Addresses.Length - 1)}" : "";
        return $"{(server.Addresses.Length > 0 ? server.Addresses[0] : "?")}{more}"
            + $"{(server.Accepting ? "" : " (closed)")}";
    }

    private static void AddSlowest(List<string> lines, TopSnapshot now)
    {
        TopSlow[] slowest = [.. now.Servers.SelectMany(static s => s.Slowest).Where(static s => s is not null)
            .OrderByDescending(static s => s.BytesPending).Take(10)];
        if (slowest.Length == 0) return;
        lines.Add(Row("SLOWEST", -30, "SESSION", 10, "LOOP", 6, "QUEUED", 11, "OF LIMIT", 10));
        foreach (TopSlow slow in slowest)
        {
            string share = slow.LimitBytes > 0
                ? string.Create(CultureInfo.InvariantCulture, $"{slow.BytesPending * 100.0 / slow.LimitBytes:0} %")
                : "-";
            lines.Add(Row(slow.Peer ?? "?", -30, Count(slow.Id), 10, Count(slow.Loop), 6,
                UnitText.RoundBytes(slow.BytesPending), 11, share, 10));
        }

        lines.Add("");
    }

    private static void AddLoops(List<string> lines, Span span)
    {
        lines.Add(Row("LOOP", 5, "CONNS", 9, "CPU", 8, "TURNS/S", 10, "EMPTY", 8, "PER TURN", 10, "WAKES/S", 10, "IN/S",
            11, "OUT/S", 11, "PER SEND", 11, "QUEUED", 11, "TIMERS", 8, "BLOCKED", 9));
        for (int i = 0; i < span.Now.Loops.Length; i++)
        {
            TopLoop loop = span.Now.Loops[i];
            TopLoop? earlier = span.Before is { } before && i < before.Loops.Length ? before.Loops[i] : null;
            long turns = loop.Turns - (earlier?.Turns ?? loop.Turns),
                sends = loop.Sends - (earlier?.Sends ?? loop.Sends);
            lines.Add(Row(
                Count(loop.Index), 5, Count(loop.Connections), 9, span.Share(earlier?.CpuMs, loop.CpuMs), 8,
                span.Rate(earlier?.Turns, loop.Turns), 10,
                Ratio((loop.EmptyTurns - (earlier?.EmptyTurns ?? 0)) * 100.0, turns, "0' %'"),
                8, Ratio(loop.Completions - (earlier?.Completions ?? 0), turns, "0.0"), 10,
                span.Rate(earlier?.Wakes, loop.Wakes), 10,
                span.Bytes(earlier?.BytesReceived, loop.BytesReceived), 11,
                span.Bytes(earlier?.BytesSent, loop.BytesSent), 11,
                sends > 0 ? UnitText.RoundBytes((loop.BytesSent - earlier!.BytesSent) / sends) : "-", 11,
                UnitText.RoundBytes(loop.BytesPending), 11, Count(loop.Timers), 8, Count(loop.BlockedTurns), 9));
            if (loop.Running is { } running) lines.Add($"      blocked by {running}");
        }
    }

    private static void AddNotices(List<string> lines, TopSnapshot now)
    {
        TopNotice[] notices = [.. (now.Notices ?? []).OfType<TopNotice>().Take(3)];
        if (notices.Length == 0) return;
        lines.Add("");
        lines.Add("LAST NOTICES");
        foreach (TopNotice notice in notices)
            lines.Add(string.Create(CultureInfo.InvariantCulture,
                $"{notice.At.UtcDateTime:HH:mm:ss}Z {notice.Message} (whimbrel explain "
                + $"{Path.GetFileNameWithoutExtension(notice.Page)})"));
    }

    private static string Ratio(double part, long whole, string format) =>
        whole > 0 ? (part / whole).ToString(format, CultureInfo.InvariantCulture) : "-";

    private static string Count(long number) => number.ToString("#,0", CultureInfo.InvariantCulture);

    /// <summary>
    /// Formats a row from alternating texts and widths. A negative width aligns left; a longer text moves the following
    /// cells.
    /// </summary>
    private static string Row(params object[] cells)
    {
        StringBuilder row = new();
        for (int i = 0; i < cells.Length; i += 2)
        {
            string text = (string)cells[i];
            int width = (int)cells[i + 1];
            row.Append(width < 0 ? text.PadRight(-width) : " " + text.PadLeft(width - 1));
        }

        return row.ToString();
    }

    /// <summary>Replaces control characters, because a server's text could control the terminal.</summary>
    private static string Clean(string text) =>
        text.Any(char.IsControl) ? string.Concat(text.Select(static c => char.IsControl(c) ? '?' : c)) : text;

    /// <summary>Time between two snapshots of one process.</summary>
    private readonly struct Span
    {
        internal readonly TopSnapshot? Before;
        internal readonly TopSnapshot Now;
        private readonly double _seconds;

        internal Span(TopSnapshot? before, TopSnapshot now)
        {
            Now = now;
            // Another process: the first snapshot is ignored.
            if (before is null || before.Pid != now.Pid || before.TimeMs >= now.TimeMs) return;
            Before = before;
            _seconds = (now.TimeMs - before.TimeMs) / 1000.0;
        }

        internal string Rate(long? earlier, long later) => PerSecond(earlier, later) is { } rate
            ? rate.ToString(rate < 10 ? "0.#" : "#,0", CultureInfo.InvariantCulture)
            : "-";

        internal string Bytes(long? earlier, long later) =>
            PerSecond(earlier, later) is { } rate ? UnitText.RoundBytes((long)rate) : "-";

        /// <summary>Formats milliseconds on a cpu as a part of the time.</summary>
        internal string Share(long? earlierMs, long? laterMs) =>
            laterMs is { } later && PerSecond(earlierMs, later) is { } rate
                ? (rate / 10).ToString("0.0' %'", CultureInfo.InvariantCulture)
                : "-";

        internal string OfServers(Func<TopServer, long> number) => Rate(Before is null ? null : 0, Difference(number));

        internal string BytesOfServers(Func<TopServer, long> number) =>
            Bytes(Before is null ? null : 0, Difference(number));

        /// <summary>
        /// Sums a difference over the servers of the previous snapshot; a new server counts from the next one.
        /// </summary>
        private long Difference(Func<TopServer, long> number)
        {
            long sum = 0;
            foreach (TopServer server in Now.Servers)
            {
                if (Before?.Servers.FirstOrDefault(server.IsSame) is { } earlier)
                    sum += number(server) - number(earlier);
            }

            return sum;
        }

        private double? PerSecond(long? earlier, long later) =>
            earlier is { } number && _seconds > 0 ? Math.Max(0, later - number) / _seconds : null;
    }
}
