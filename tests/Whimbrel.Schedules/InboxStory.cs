using System.Net;
using System.Text;
using Whimbrel.Connections;
using Whimbrel.Engines;

namespace Whimbrel.Schedules;

/// <summary>
/// One connection, threads that call it, its loop, and threads of the pool where callbacks run there. Messages are two
/// characters: the caller and a digit. At rest, when nothing is left to run, every accepted message has arrived; then
/// the engine is stopped, and nothing is missing.
/// </summary>
internal sealed class InboxStory
{
    private readonly ScheduledEngine _engine = new();
    private readonly Wire _wire;
    private readonly SessionGroup _group = new();
    private readonly List<string> _accepted = [];
    private readonly List<(Task<SendResult> Task, string Message)> _waiting = [];
    private readonly List<(Task<bool> Task, string[] Before)> _marks = [];
    private readonly ScheduledSession _session;
    private readonly Scheduling _scheduling;
    private Task? _stopping;
    private bool _isEnding;
    private int _inside;

    internal InboxStory(Scheduling scheduling, Action<InboxStory>? received = null, int room = int.MaxValue,
        int requests = 0)
    {
        _scheduling = scheduling;
        _wire = new Wire { Room = room };
        _session = new ScheduledSession(_ => Received(received));
        Server server = new(
            new ServerOptions
            {
                Engine = _engine,
                EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
                Scheduling = scheduling,
            },
            () => _session);
        ValueTask starting = server.StartAsync();
        _engine.Settle(() => starting.IsCompleted);
        starting.GetAwaiter().GetResult();
        _engine.Loop.Listener!.CompleteAccept(new RawSocket(0, _wire), default, null);
        _engine.Settle(() => _session.HasBegun && !_engine.Loop.Mailbox.Any);
        for (int i = 0; i < requests; i++) _wire.Incoming.Enqueue("?"u8.ToArray());
    }

    /// <summary>What the threads do that are neither the loop's nor the pool's.</summary>
    internal Action<InboxStory>[] Callers { get; init; } = [];

    internal int PoolThreads { get; init; } = 1;

    /// <summary>
    /// A close or a stop is among the calls: what is accepted may be lost, and is then counted.
    /// </summary>
    internal bool MayEnd { get; init; }

    /// <summary>Number of callbacks that have run.</summary>
    internal int Callbacks { get; private set; }

    internal void Send(string message)
    {
        if (_session.Send(Encoding.ASCII.GetBytes(message)) == SendResult.Queued) _accepted.Add(message);
    }

    internal void SendAsync(string message)
    {
        _waiting.Add((_session.SendAsync(Encoding.ASCII.GetBytes(message)).AsTask(), message));
    }

    /// <summary>Calls SentAsync after messages of the same caller.</summary>
    internal void Mark(params string[] before) => _marks.Add((_session.SentAsync().AsTask(), before));

    internal void Join() => _group.Join(_session);

    internal void Broadcast(string message)
    {
        if (_group.Broadcast(Encoding.ASCII.GetBytes(message)) == SendResult.Queued) _accepted.Add(message);
    }

    internal void Close() => _session.Close();

    internal void Stop() => _stopping = _engine.StopAsync().AsTask();

    internal Scenario Begin()
    {
        List<(string, Action)> bodies = [];
        for (int i = 0; i < Callers.Length; i++)
        {
            Action<InboxStory> caller = Callers[i];
            bodies.Add(($"caller {(char)('a' + i)}", () => caller(this)));
        }

        bodies.Add(("loop", _engine.RunLoop));
        if (_scheduling == Scheduling.ThreadPool)
        {
            for (int i = 0; i < PoolThreads; i++) bodies.Add(($"pool {i}", _engine.RunPool));
        }

        return new Scenario(bodies, AtRest, Check);
    }

    private void Received(Action<InboxStory>? received)
    {
        if (++_inside > 1) throw new ScheduleException("two callbacks of one session run at once");
        Callbacks++;
        received?.Invoke(this);
        _inside--;
    }

    private bool AtRest()
    {
        if (_engine.Violation is { } violation) throw violation;
        if (_isEnding)
            throw new ScheduleException($"the stop does not end: {_engine.Describe()}, {_session.Ends} ends");
        CheckArrived();
        _isEnding = true;
        if (_stopping is null) Stop();
        return true;
    }

    /// <summary>The loop sleeps and no call is left: what was accepted has arrived.</summary>
    private void CheckArrived()
    {
        if (_wire.Incoming.Count > 0 && !_wire.IsClosed) throw new ScheduleException("a request was not read");
        if (MayEnd) return;
        _engine.RunPoolItems();
        TakeResults();
        foreach ((Task<bool> task, _) in _marks)
        {
            if (!task.IsCompleted) throw new ScheduleException("a SentAsync has not ended");
        }

        if (_wire.Got.Count != 2 * _accepted.Count) Wrong("bytes are missing");
    }

    /// <summary>Adds the awaited sends that were queued to the accepted ones.</summary>
    private void TakeResults()
    {
        foreach ((Task<SendResult> task, string message) in _waiting)
        {
            if (!task.IsCompleted) throw new ScheduleException($"SendAsync of {message} has not ended");
            if (task.GetAwaiter().GetResult() == SendResult.Queued) _accepted.Add(message);
        }

        _waiting.Clear();
    }

    private void Check()
    {
        if (_engine.Violation is { } violation) throw violation;
        _engine.RunPoolItems();
        if (_stopping is not { IsCompletedSuccessfully: true }) throw new ScheduleException("the stop has not ended");
        if (_session.Failure is { } failure) throw new ScheduleException($"a callback threw {failure}");
        if (_session.Ends != 1) throw new ScheduleException($"the session ended {_session.Ends} times");
        TakeResults();
        string[] got = [.. Encoding.ASCII.GetString([.. _wire.Got]).Chunk(2).Select(static c => new string(c))];
        foreach ((Task<bool> task, string[] before) in _marks)
        {
            if (!task.IsCompleted) throw new ScheduleException("a SentAsync has not ended");
            if (task.GetAwaiter().GetResult() && !before.Where(_accepted.Contains).All(got.Contains))
                Wrong("SentAsync is true before its time");
        }

        if (got.Distinct().Count() != got.Length) Wrong("a message arrived twice");
        foreach (IGrouping<char, string> caller in got.Where(static m => m.Length == 2).GroupBy(static m => m[0]))
        {
            if (!caller.SequenceEqual(_accepted.Where(m => m[0] == caller.Key).Take(caller.Count())))
                Wrong($"the order of caller {caller.Key} is wrong");
        }

        // Also if a send or a direct send was in progress when the connection ended.
        long lost = _session.Reason.BytesLost;
        if (lost != 2 * _accepted.Count - _wire.Got.Count) Wrong($"{lost} bytes were reported as lost");
        if (_engine.Loop.InboxItems.Outstanding != 0) throw new ScheduleException("an entry is missing");
        if (_engine.Loop.Blocks.Outstanding != 0) throw new ScheduleException("a block is missing");
        if (_engine.MailboxBudget.Used != 0)
            throw new ScheduleException($"{_engine.MailboxBudget.Used} bytes of the budget are missing");
    }

    private void Wrong(string what) => throw new ScheduleException(
        $"{what}: accepted {string.Join(' ', _accepted)}, arrived {Encoding.ASCII.GetString([.. _wire.Got])}");
}
