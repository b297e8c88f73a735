using System.Buffers;
using System.Net;
using System.Text.Json;
using Whimbrel.Diagnostics;
using Whimbrel.Linux;

namespace Whimbrel;

/// <summary>
/// Content of a <see cref="StatusSocket"/>, as one line of JSON: an engine, its loops, its servers and their slowest
/// sessions. Fields are added, and change their meaning only with another <see cref="Version"/> (docs/design/0051). At
/// most <see cref="MostBytes"/>.
/// </summary>
internal static class StatusSnapshot
{
    internal const int Version = 1;

    /// <summary>
    /// Upper bound for 256 loops, <see cref="MostServers"/> servers and the slowest sessions of each.
    /// </summary>
    internal const int MostBytes = 512 * 1024;

    internal const int MostServers = 32;
    internal const int MostSlow = 10;
    internal const int MostGroups = 5;
    internal const int MostNotices = 10;
    private const int MostAddresses = 4;
    private const int MostText = 200;
    private const int MostNoticeText = 500;

    /// <summary>
    /// Returns the current state. Any thread; reads values that other threads write, without waiting.
    /// </summary>
    internal static byte[] Take(Engine engine)
    {
        ArrayBufferWriter<byte> buffer = new(4096);
        using (Utf8JsonWriter json = new(buffer))
        {
            json.WriteStartObject();
            WriteFields(json, engine);
            WriteNotices(json, engine);
            json.WriteEndObject();
        }

        buffer.Write("\n"u8);
        return buffer.WrittenSpan.ToArray();
    }

    /// <summary>Writes the fields without the diagnostic events, which the dashboard shows in full.</summary>
    internal static void WriteFields(Utf8JsonWriter json, Engine engine)
    {
        json.WriteNumber("whimbrel", Version);
        json.WriteNumber("pid", Environment.ProcessId);
        json.WriteNumber("timeMs", engine.NowMs);
        WriteEngine(json, engine);
        json.WriteStartArray("loops");
        for (int i = 0; i < engine.LoopCount; i++) WriteLoop(json, engine.GetLoop(i));
        json.WriteEndArray();
        WriteServers(json, ServerMetrics.ServersOf(engine));
    }

    private static void WriteEngine(Utf8JsonWriter json, Engine engine)
    {
        EngineCounters counters = engine.ReadCounters();
        json.WriteStartObject("engine");
        json.WriteString("kind", engine.KindName);
        json.WriteString("reason", Short(engine.Reason));
        json.WriteNumber("mailboxBytes", counters.MailboxBytes);
        json.WriteNumber("sendsRefused", counters.SendsRefused);
        json.WriteNumber("broadcastsRefused", counters.BroadcastsRefused);
        json.WriteNumber("userExceptions", engine.UserExceptionCount);
        if (NativeHeap.Read() is var (used, free))
        {
            json.WriteNumber("heapUsedBytes", used);
            json.WriteNumber("heapFreeBytes", free);
        }

        json.WriteEndObject();
    }

    private static void WriteLoop(Utf8JsonWriter json, Loop loop)
    {
        LoopCounters counters = loop.ReadCounters();
        json.WriteStartObject();
        json.WriteNumber("index", loop.Index);
        json.WriteNumber("connections", counters.Connections);
        json.WriteNumber("turns", counters.Turns);
        json.WriteNumber("emptyTurns", counters.EmptyTurns);
        json.WriteNumber("blockedTurns", counters.BlockedTurns);
        json.WriteNumber("completions", counters.Completions);
        json.WriteNumber("wakes", counters.Wakes);
        json.WriteNumber("receives", counters.Receives);
        json.WriteNumber("bytesReceived", counters.BytesReceived);
        json.WriteNumber("receivesParked", counters.ReceivesParked);
        json.WriteNumber("sends", counters.Sends);
        json.WriteNumber("bytesSent", counters.BytesSent);
        json.WriteNumber("bytesPending", loop.BytesPending);
        json.WriteNumber("timers", counters.Timers);
        json.WriteNumber("blockBytes", loop.Blocks.HeldBytes);
        json.WriteNumber("engineBytes", Volatile.Read(ref loop.Counters.EngineBytes));
        json.WriteNumber("tlsConnections", loop.NativeTlsCount);
        if (loop.CpuMs is { } cpu) json.WriteNumber("cpuMs", cpu);
        List<UnfinishedCall> running = [];
        loop.AddUnfinishedTurn(running);
        if (running.Count > 0) json.WriteString("running", Short(running[0].What));
        json.WriteEndObject();
    }

    private static void WriteServers(Utf8JsonWriter json, List<Server.Host> servers)
    {
        json.WriteStartArray("servers");
        foreach (Server.Host host in servers.OrderBy(static h => ((Server)h.Owner).StartedAt).Take(MostServers))
            WriteServer(json, host);
        json.WriteEndArray();
        json.WriteNumber("serversLeftOut", Math.Max(0, servers.Count - MostServers));
    }

    private static void WriteServer(Utf8JsonWriter json, Server.Host host)
    {
        Server server = (Server)host.Owner;
        ServerCounters counters = host.ReadCounters();
        SlowSession[] slowest = host.FindSlowest(MostSlow, out long pending);
        json.WriteStartObject();
        json.WriteNumber("id", host.Id);
        json.WriteStartArray("addresses");
        foreach (EndPoint endPoint in server.EndPoints.Take(MostAddresses)) json.WriteStringValue(TextOf(endPoint));
        json.WriteEndArray();
        json.WriteBoolean("tls", server.Options.Tls is not null);
        json.WriteBoolean("accepting", server.IsAccepting);
        if (server.StartedAt is { } started) json.WriteString("startedAt", started);
        json.WriteNumber("maxConnections", server.MaxConnections);
        json.WriteNumber("sessions", counters.Sessions);
        json.WriteNumber("accepted", counters.Accepted);
        json.WriteNumber("rejected", counters.Rejected);
        json.WriteNumber("refused", counters.Refused);
        json.WriteNumber("shed", counters.Shed);
        json.WriteNumber("slowConsumers", counters.SlowConsumers);
        json.WriteNumber("broadcastsDropped", counters.BroadcastsDropped);
        json.WriteNumber("bytesReceived", counters.BytesReceived);
        json.WriteNumber("bytesSent", counters.BytesSent);
        json.WriteNumber("messagesReceived", counters.MessagesReceived);
        if (counters.MessagesSent is { } sent) json.WriteNumber("messagesSent", sent);
        json.WriteNumber("bytesPending", pending);
        json.WriteNumber("tlsHandshakes", counters.TlsHandshakes);
        json.WriteNumber("tlsResumed", counters.TlsResumed);
        json.WriteNumber("tlsFailed", counters.TlsFailed);
        json.WriteNumber("tlsShaking", counters.TlsShaking);
        json.WriteNumber("userExceptions", counters.UserExceptions);
        json.WriteStartArray("slowest");
        foreach (SlowSession slow in slowest) WriteSlow(json, slow);
        json.WriteEndArray();
        WriteGroups(json, server.Groups);
        json.WriteEndObject();
    }

    private static void WriteGroups(Utf8JsonWriter json, NamedGroups groups)
    {
        json.WriteNumber("groupCount", groups.Count);
        json.WriteStartArray("groups");
        foreach (SessionGroup group in Largest(groups, MostGroups))
        {
            json.WriteStartObject();
            json.WriteString("name", Short(group.Name));
            json.WriteNumber("members", group.Count);
            json.WriteEndObject();
        }

        json.WriteEndArray();
    }

    /// <summary>Returns the groups with the most members, the largest first.</summary>
    private static SessionGroup[] Largest(NamedGroups groups, int most)
    {
        // The smallest group is the next to be removed.
        PriorityQueue<SessionGroup, int> found = new();
        foreach (SessionGroup group in groups)
        {
            if (found.Count < most) found.Enqueue(group, group.Count);
            else found.EnqueueDequeue(group, group.Count);
        }

        SessionGroup[] largest = new SessionGroup[found.Count];
        for (int i = largest.Length - 1; i >= 0; i--) largest[i] = found.Dequeue();
        return largest;
    }

    private static void WriteNotices(Utf8JsonWriter json, Engine engine)
    {
        json.WriteStartArray("notices");
        foreach (RecentNotice notice in engine.RecentNotices.Read().Take(MostNotices))
        {
            json.WriteStartObject();
            json.WriteString("at", notice.At);
            json.WriteString("kind", notice.Kind.ToString());
            json.WriteString("message", Short(notice.Message, MostNoticeText));
            json.WriteString("page", notice.Page);
            json.WriteEndObject();
        }

        json.WriteEndArray();
    }

    private static void WriteSlow(Utf8JsonWriter json, SlowSession slow)
    {
        json.WriteStartObject();
        json.WriteNumber("id", slow.Session.Id);
        json.WriteString("peer", TextOf(slow.Session.RemoteEndPoint));
        json.WriteNumber("loop", slow.Session.Loop.Index);
        json.WriteNumber("bytesPending", slow.BytesPending);
        json.WriteNumber("limitBytes", slow.Session.SendLimitBytes);
        json.WriteEndObject();
    }

    /// <summary>Returns the text of an end point, which may be a class of the application and throw.</summary>
    internal static string TextOf(EndPoint? endPoint)
    {
        try
        {
            return Short(endPoint?.ToString() ?? "");
        }
        catch (Exception)
        {
            return "?";
        }
    }

    private static string Short(string text, int most = MostText) => text.Length <= most ? text : text[..most];
}
