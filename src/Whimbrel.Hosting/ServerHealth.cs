using System.Runtime.InteropServices;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace Whimbrel.Hosting;

/// <summary>
/// Health of a server. Recent rejections count for a while.
/// </summary>
internal sealed class ServerHealth(HostedServer hosted, TimeProvider clock)
{
    private readonly Lock _gate = new();
    private readonly Dictionary<int, Question> _asked = []; // by loop; one at a time, because a loop may be blocked
    private readonly News _rejections = new(clock);
    private readonly News _refusals = new(clock);

    internal string Name => hosted.Name;

    internal bool IsAccepting => hosted.Server.IsAccepting;

    internal async Task<HealthCheckResult> LookAsync(HealthCheckContext? context, ServerHealthOptions options,
        CancellationToken cancellationToken)
    {
        Server server = hosted.Server;
        ServerCounters counters = server.ReadCounters();
        EngineCounters engine = server.Engine.ReadCounters();
        Dictionary<string, object> data = new()
        {
            ["sessions"] = counters.Sessions,
            ["rejected"] = counters.Rejected + counters.Shed,
            ["mailboxBytes"] = engine.MailboxBytes
        };
        HealthStatus failure = context?.Registration?.FailureStatus ?? HealthStatus.Unhealthy;
        if (!server.IsAccepting || hosted.IsLeaving)
        {
            return new HealthCheckResult(failure, server.StartedAt is null
                ? $"{hosted.Name} is not started"
                : server.IsAccepting ? $"{hosted.Name} is about to stop, with {counters.Sessions} sessions open"
                : $"{hosted.Name} does not accept: it drains, or has stopped, with {counters.Sessions} sessions open",
                data: data);
        }

        if (await FindSilenceAsync(options, cancellationToken).ConfigureAwait(false) is { } silence)
        {
            return new HealthCheckResult(silence.Longest >= options.LoopStandstill ? failure : HealthStatus.Degraded,
                silence.TextFor(hosted.Name), data: data);
        }

        bool rejects = _rejections.Look(counters.Rejected + counters.Shed);
        bool isMailboxFull = _refusals.Look(engine.SendsRefused + engine.BroadcastsRefused);
        if (counters.Sessions >= server.MaxConnections)
            return HealthCheckResult.Degraded($"{hosted.Name} has {counters.Sessions} sessions, which is its limit "
                + $"(Limits.Connections): new ones are rejected", data: data);
        if (rejects)
            return HealthCheckResult.Degraded(
                $"{hosted.Name} has rejected connections in the last {News.Memory.TotalSeconds} s", data: data);
        if (isMailboxFull)
            return HealthCheckResult.Degraded($"{hosted.Name}: sends were refused in the last "
                + $"{News.Memory.TotalSeconds} s, the loops do not get to what other threads send (MailboxLimitBytes)",
                data: data);
        return HealthCheckResult.Healthy($"{hosted.Name} serves {counters.Sessions} sessions", data);
    }

    /// <summary>
    /// Returns the loops with sessions of the server that do not answer; or all loops if none answers, because no
    /// connection is accepted then. Null if there are none.
    /// </summary>
    internal async Task<LoopSilence?> FindSilenceAsync(ServerHealthOptions options, CancellationToken cancellationToken)
    {
        Server server = hosted.Server;
        Engine engine = server.Engine;
        Question[] questions = Ask(engine);
        TimeSpan left = options.LoopSilence - questions.Min(q => clock.GetElapsedTime(q.At));
        try
        {
            if (left > TimeSpan.Zero)
                await Task.WhenAll(questions.Select(static q => q.Answer)).WaitAsync(left, clock, cancellationToken)
                    .ConfigureAwait(false);
        }
        catch (TimeoutException)
        {
            // Checked below.
        }
        catch (Exception e) when (e is not OperationCanceledException)
        {
            return null; // The engine has stopped: the server accepts no more, which the next check reports.
        }

        List<int> silent = [];
        for (int i = 0; i < questions.Length; i++)
        {
            if (!questions[i].Answer.IsCompleted && clock.GetElapsedTime(questions[i].At) >= options.LoopSilence)
                silent.Add(i);
        }

        List<int> own = silent.Count == questions.Length
            ? silent
            : silent.FindAll(i => server.Sessions.CountOn(engine.GetLoop(i)) > 0);
        return own.Count == 0 ? null : new LoopSilence(own, own.Max(i => clock.GetElapsedTime(questions[i].At)),
            own.Sum(i => server.Sessions.CountOn(engine.GetLoop(i))));
    }

    private Question[] Ask(Engine engine)
    {
        Question[] questions = new Question[engine.LoopCount];
        lock (_gate)
        {
            for (int i = 0; i < questions.Length; i++)
            {
                ref Question asked = ref CollectionsMarshal.GetValueRefOrAddDefault(_asked, i, out _);
                if (asked.Answer is null or { IsCompleted: true })
                    asked = new Question(engine.GetLoop(i).PostAsync(static () => { }).AsTask(), clock.GetTimestamp());
                questions[i] = asked;
            }
        }

        return questions;
    }

    private readonly record struct Question(Task Answer, long At);
}
