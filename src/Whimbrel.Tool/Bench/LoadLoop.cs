namespace Whimbrel.Tool.Bench;

/// <summary>
/// The load of one loop: its lanes take turns, and each message is sent at its own moment, whatever became of those
/// before it. START READING HERE; then Lane.cs for one connection, Pacer.cs for the clock, LoadCell.cs for the phases.
/// The loop's thread, except <see cref="RequestTick"/>, <see cref="NextDueAfter"/> and <see cref="To"/>.
/// </summary>
internal sealed class LoadLoop(Loop loop, bool isClosed, TimeSpan? lossAfter)
{
    private const long SweepNs = 50 * Clock.NsInMs;

    private readonly List<Lane> _lanes = [];
    private Schedule _schedule = new(long.MaxValue / 2, 1);
    private long _number;
    private long _nextSweep;
    private long _from = long.MaxValue;
    private long _to = long.MaxValue;
    private int _isTickPosted;
    private bool _isRunning;
    private bool _isOver;

    internal Loop Loop => loop;

    internal bool IsClosed => isClosed;

    /// <summary>Whether an answer is followed by the next message at once.</summary>
    internal bool FollowsAt(long now) => isClosed && _isRunning && now < To;

    internal int LaneCount => _lanes.Count;

    internal LoadFigures Figures { get; } = new();

    /// <summary>End of the window. Set by any thread to end it earlier.</summary>
    internal long To
    {
        get => Volatile.Read(ref _to);
        set => Volatile.Write(ref _to, value);
    }

    /// <summary>Sends what is still due, and returns whether everything was answered.</summary>
    internal bool IsIdleNow()
    {
        SendDue(Clock.Now());
        return _lanes.TrueForAll(static l => l.IsIdle);
    }

    internal void Add(Lane lane)
    {
        lane.Position = _lanes.Count;
        _lanes.Add(lane);
    }

    /// <summary>Starts the traffic.</summary>
    /// <param name="schedule">Moments of the messages of this loop. A closed loop begins at once.</param>
    /// <param name="from">Begin of the measured window.</param>
    /// <param name="to">End of the measured window.</param>
    internal void Begin(Schedule schedule, long from, long to)
    {
        (_schedule, _from, To) = (schedule, from, to);
        _isRunning = true;
        if (!isClosed) return;
        long now = Clock.Now();
        foreach (Lane lane in _lanes) lane.Freed(now);
    }

    internal long DueOf(long number, int position) => _schedule.DueOf((number * _lanes.Count) + position);

    // ------------------------------------------------------------------ the clock

    /// <summary>Returns the moment of the next message after <paramref name="now"/>. Any thread.</summary>
    internal long NextDueAfter(long now) => isClosed ? long.MaxValue : _schedule.NextAfter(now);

    /// <summary>Makes the loop send what is due. Any thread; a request that is pending is not repeated.</summary>
    internal void RequestTick()
    {
        if (Interlocked.Exchange(ref _isTickPosted, 1) == 0) loop.Post(static state => ((LoadLoop)state!).Tick(), this);
    }

    private void Tick()
    {
        Volatile.Write(ref _isTickPosted, 0);
        long now = Clock.Now();
        SendDue(now);
        if (lossAfter is not { } patience || now < _nextSweep || _isOver) return;
        _nextSweep = now + SweepNs;
        foreach (Lane lane in _lanes) lane.LoseOlderThan(now - Clock.Ns(patience), now);
    }

    /// <summary>Sends the messages that have become due.</summary>
    internal void SendDue(long now)
    {
        if (isClosed || _lanes.Count == 0) return;
        for (long due = _schedule.DueOf(_number); due <= now && due < To; due = _schedule.DueOf(_number))
        {
            if (due >= _from) Figures.Due++;
            Lane lane = _lanes[(int)(_number % _lanes.Count)];
            _number++;
            lane.BecameDue(now);
        }
    }

    // ------------------------------------------------------------------ figures

    internal void CountSent(long due, long couldLeave, long now)
    {
        if (!IsMeasured(due)) return;
        Figures.Sent++;
        if (isClosed)
        {
            Figures.Due++;
            return;
        }

        LoadFigures.Record(Figures.Lateness, now - couldLeave);
        if (now - couldLeave > LoadFigures.LateNs) Figures.Late++;
    }

    internal void Record(long due, long sent, long now)
    {
        if (_isOver) return;
        if (now >= _from && now < To && due > 0) Figures.AnsweredInTime++;
        if (!IsMeasured(due)) return;
        Figures.Answered++;
        LoadFigures.Record(Figures.Latency, now - due);
        LoadFigures.Record(Figures.Service, now - sent);
    }

    internal void Lose(long due)
    {
        if (!_isOver && IsMeasured(due)) Figures.Lost++;
    }

    internal void GiveUp(long due, long sent, long now)
    {
        if (!IsMeasured(due)) return;
        Figures.Unanswered++;
        LoadFigures.Record(Figures.Latency, now - due);
        LoadFigures.Record(Figures.Service, now - sent);
    }

    internal void Fail(string kind, string text)
    {
        if (!_isOver) Figures.Errors.Add(kind, text);
    }

    /// <summary>Ends the measurement: messages without an answer are recorded, and nothing after it.</summary>
    internal void End()
    {
        long now = Clock.Now();
        foreach (Lane lane in _lanes) lane.GiveUp(now, lossAfter is not null);
        _isOver = true;
    }

    private bool IsMeasured(long due) => due >= _from && due < To;
}
