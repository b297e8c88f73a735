using System.Runtime.InteropServices;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace Whimbrel.Hosting;

/// <summary>
/// How a server is. What was refused counts for a while.
/// </summary>
internal sealed class ServerHealth(HostedServer hosted, TimeProvider clock) : IHealthCheck
{
    internal static readonly TimeSpan LoopPatience = TimeSpan.FromSeconds(1);

    private readonly Lock _gate = new();
    private readonly Dictionary<int, Task> _asked = []; // by loop: one question at a time, so that they do not pile up on a loop that stands still
    private readonly News _rejections = new(clock);
    private readonly News _refusals = new(clock);

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
        bool rejects = _rejections.Look(counters.Rejected + counters.Shed);
        bool isMailboxFull = _refusals.Look(engine.SendsRefused + engine.BroadcastsRefused);
        if (counters.Sessions >= server.MaxConnections) return HealthCheckResult.Degraded($"{hosted.Name} has {counters.Sessions} sessions, which is its limit (MaxConnections): new ones are rejected", data: data);
        if (rejects) return HealthCheckResult.Degraded($"{hosted.Name} has rejected connections in the last {News.Memory.TotalSeconds} s", data: data);
        if (isMailboxFull) return HealthCheckResult.Degraded($"{hosted.Name}: sends were refused in the last {News.Memory.TotalSeconds} s, the loops do not get to what other threads send (MailboxLimitBytes)", data: data);
        return HealthCheckResult.Healthy($"{hosted.Name} serves {counters.Sessions} sessions", data);
    }

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
