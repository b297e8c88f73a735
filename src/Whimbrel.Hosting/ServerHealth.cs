using System.Runtime.InteropServices;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace Whimbrel.Hosting;

/// <summary>
/// How a server is, asked from time to time, by several askers at once perhaps. What was refused counts for a while, so that one asker does not take the
/// news from another.
/// </summary>
internal sealed class ServerHealth(HostedServer hosted, TimeProvider clock) : IHealthCheck
{
    internal static readonly TimeSpan LoopPatience = TimeSpan.FromSeconds(1);
    internal static readonly TimeSpan Memory = TimeSpan.FromSeconds(10);

    private readonly Lock _gate = new();
    private readonly Dictionary<int, Task> _asked = []; // by loop: one question at a time, so that they do not pile up on a loop that stands still
    private (long Rejected, long Mailbox) _seen;
    private long? _rejectedAt;
    private long? _mailboxAt;

    public async Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context, CancellationToken cancellationToken = default)
    {
        Server server = hosted.Server;
        ServerCounters counters = server.ReadCounters();
        EngineCounters engine = server.Engine.ReadCounters();
        Dictionary<string, object> data = new() { ["sessions"] = counters.Sessions, ["rejected"] = counters.Rejected + counters.Shed, ["mailboxBytes"] = engine.MailboxBytes };
        HealthStatus failure = context?.Registration?.FailureStatus ?? HealthStatus.Unhealthy;
        if (!server.IsAccepting)
        {
            return new HealthCheckResult(failure, server.StartedAt is null ? $"{hosted.Name} is not started" : $"{hosted.Name} does not accept: it drains, or has stopped, with {counters.Sessions} sessions open", data: data);
        }

        List<int> blocked = await FindBlockedAsync(server.Engine, cancellationToken).ConfigureAwait(false);
        if (blocked.Count > 0) return new HealthCheckResult(failure, $"{hosted.Name}: loop {string.Join(", ", blocked)} has not answered within {LoopPatience.TotalSeconds} s; a callback blocks it", data: data);
        (bool rejects, bool isMailboxFull) = LookAt(counters, engine);
        if (counters.Sessions >= server.MaxConnections) return HealthCheckResult.Degraded($"{hosted.Name} has {counters.Sessions} sessions, which is its limit (MaxConnections): new ones are rejected", data: data);
        if (rejects) return HealthCheckResult.Degraded($"{hosted.Name} has rejected connections in the last {Memory.TotalSeconds} s", data: data);
        if (isMailboxFull) return HealthCheckResult.Degraded($"{hosted.Name}: sends were refused in the last {Memory.TotalSeconds} s, the loops do not get to what other threads send (MailboxLimitBytes)", data: data);
        return HealthCheckResult.Healthy($"{hosted.Name} serves {counters.Sessions} sessions", data);
    }

    private (bool Rejects, bool IsMailboxFull) LookAt(ServerCounters counters, EngineCounters engine)
    {
        lock (_gate)
        {
            long now = clock.GetTimestamp();
            (long Rejected, long Mailbox) fresh = (counters.Rejected + counters.Shed, engine.SendsRefused + engine.BroadcastsRefused);
            // Counts begin anew with each start.
            if (fresh.Rejected > _seen.Rejected) _rejectedAt = now;
            if (fresh.Mailbox > _seen.Mailbox) _mailboxAt = now;
            _seen = fresh;
            return (IsNews(_rejectedAt, now), IsNews(_mailboxAt, now));
        }
    }

    private bool IsNews(long? at, long now) => at is { } then && clock.GetElapsedTime(then, now) < Memory;

    private async Task<List<int>> FindBlockedAsync(Engine engine, CancellationToken cancellationToken)
    {
        Task[] answers = new Task[engine.LoopCount];
        lock (_gate)
        {
            for (int i = 0; i < answers.Length; i++)
            {
                ref Task? asked = ref CollectionsMarshal.GetValueRefOrAddDefault(_asked, i, out _);
                if (asked is null or { IsCompleted: true }) asked = engine.GetLoop(i).PostAsync(static () => { }).AsTask();
                answers[i] = asked;
            }
        }

        List<int> blocked = [];
        try
        {
            await Task.WhenAll(answers).WaitAsync(LoopPatience, clock, cancellationToken).ConfigureAwait(false);
        }
        catch (TimeoutException)
        {
            for (int i = 0; i < answers.Length; i++)
            {
                if (!answers[i].IsCompleted) blocked.Add(i);
            }
        }
        catch (Exception e) when (e is not OperationCanceledException)
        {
            // The engine has stopped: the server accepts no more, and the next look tells that.
        }

        return blocked;
    }
}
