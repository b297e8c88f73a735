using System.Buffers;
using System.Diagnostics;
using System.Text.Json;
using Whimbrel.Http;

namespace Whimbrel.Dashboard;

/// <summary>
/// Samples the engines of a dashboard and sends each open page its view. Lives from the first viewer to the last one.
/// Its updates run one after the other on the thread pool, so they take nothing from a loop except the probes.
/// </summary>
internal sealed class Sampler : IDisposable
{
    /// <summary>Longest wait for the answers of loops. Those of a blocked loop are shown with a later update.</summary>
    private const int ProbeWaitMs = 50;

    /// <summary>A page with more unsent bytes than this misses an update.</summary>
    private const int MostPending = 64 * 1024;

    private readonly Engine[] _engines;
    private readonly DashboardOptions _options;
    private readonly LoopProbe[] _probes;
    private readonly Sample _sample = new();
    private readonly EndedSessions _ended = new();
    private readonly ArrayBufferWriter<byte> _message = new(16 * 1024);

    internal Sampler(Engine[] engines, DashboardOptions options)
    {
        _engines = engines;
        _options = options;
        _probes = [.. engines.SelectMany(static engine => Enumerable.Range(0, engine.LoopCount),
            static (engine, index) => new LoopProbe(engine.GetLoop(index)))];
        foreach (Engine engine in engines) engine.SessionHasEnded += _ended.Add;
    }

    public void Dispose()
    {
        foreach (Engine engine in _engines) engine.SessionHasEnded -= _ended.Add;
    }

    /// <summary>
    /// Samples once and sends. Returns the time that this took, without waits for loops. Never fails.
    /// </summary>
    internal async Task<TimeSpan> UpdateAsync(Viewer[] viewers)
    {
        long begin = Stopwatch.GetTimestamp();
        try
        {
            Dictionary<Viewer, GroupQuestion> questions = [];
            foreach (Viewer viewer in viewers)
            {
                if (GroupQuestion.For(viewer, _engines) is { } question)
                    questions[viewer] = question;
            }

            Action<Loop>[] asked = [.. questions.Values.Select(static q => (Action<Loop>)q.AnswerOn)];
            Task answers = Task.WhenAll(Array.ConvertAll(_probes, probe => probe.Send(asked)));
            await Task.WhenAny(answers, Task.Delay(ProbeWaitMs)).ConfigureAwait(false);
            begin = Stopwatch.GetTimestamp();
            SendAll(viewers, questions);
        }
        catch (Exception e)
        {
            _engines[0].ReportException("the dashboard", e);
        }

        return Stopwatch.GetElapsedTime(begin);
    }

    private void SendAll(Viewer[] viewers, Dictionary<Viewer, GroupQuestion> questions)
    {
        List<Server.Host> servers = [.. _engines.SelectMany(ServerMetrics.ServersOf)];
        _sample.Take(servers, GroupQuestion.ClientSessionsOf(_engines));
        byte[] engines = Snapshot.Take(_engines, _probes);
        DateTimeOffset now = _engines[0].UtcNow;
        ViewWriter writer = new(_sample, _ended, servers, _engines);
        foreach (Viewer viewer in viewers)
        {
            if (_options.Token is not null && viewer.Socket.ConnectedAt + LoginCookie.Lifetime < now)
            {
                viewer.Socket.Close(WebSocketStatus.PolicyViolation, "The login has expired");
                continue;
            }

            // A page that reads slowly gets a later update instead of a queue of old ones.
            if (viewer.Socket.BytesPending > MostPending) continue;
            _message.ResetWrittenCount();
            using (Utf8JsonWriter json = new(_message))
            {
                json.WriteStartObject();
                json.WriteNumber("intervalMs", _options.Interval.TotalMilliseconds);
                json.WriteString("time", now);
                json.WriteBoolean("login", _options.Token is not null);
                json.WriteNumber("serversOfOtherEngines", Math.Max(0, ServerMetrics.ServerCount - servers.Count));
                WriteActions(json);
                json.WritePropertyName("engines");
                json.WriteRawValue(engines, skipInputValidation: true);
                writer.Write(json, viewer, questions.GetValueOrDefault(viewer));
                json.WriteEndObject();
            }

            viewer.Socket.SendText(_message.WrittenSpan);
        }
    }

    private void WriteActions(Utf8JsonWriter json)
    {
        json.WriteStartArray("actions");
        if (_options.Actions.HasFlag(DashboardActions.Disconnect)) json.WriteStringValue("disconnect");
        if (_options.Actions.HasFlag(DashboardActions.Drain)) json.WriteStringValue("drain");
        if (_options.Actions.HasFlag(DashboardActions.ReloadCertificate)) json.WriteStringValue("reload");
        json.WriteEndArray();
    }
}
