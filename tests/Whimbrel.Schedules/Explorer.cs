using System.Diagnostics.CodeAnalysis;
using System.Globalization;
using System.Text;

namespace Whimbrel.Schedules;

/// <summary>
/// Runs a scenario again and again, each time with another order of its threads, until all orders with at most
/// <c>preemptions</c> preemptions were run (iterative context bounding, as in CHESS). A change of threads where a
/// thread blocks or ends is free; a preemption takes the processor from a thread that could continue.
/// </summary>
internal sealed class Explorer
{
    private const int MostSteps = 5_000;
    private const int MostTrace = 400;
    private const int RandomSteps = 25;

    private readonly int _preemptions;
    private readonly Random? _random;
    private readonly List<ControlledThread> _threads = [];
    private readonly List<Choice> _path = [];
    private readonly SemaphoreSlim _finished = new(0);
    private readonly List<ControlledThread> _options = [];
    private readonly StringBuilder _trace = new();
    private int _depth;
    private int _used; // preemptions of this execution
    private int _active;
    private Func<bool>? _atRest;
    private Exception? _failure;

    /// <summary>Creates an explorer.</summary>
    /// <param name="preemptions">Maximum number of preemptions of one execution.</param>
    /// <param name="seed">Seed of random orders; null for each order in turn.</param>
    internal Explorer(int preemptions, int? seed = null)
    {
        _preemptions = preemptions;
        if (seed is { } given) _random = new Random(given);
    }

    /// <summary>Number of executions so far.</summary>
    internal long Executions { get; private set; }

    /// <summary>Steps of this execution.</summary>
    internal long Steps { get; private set; }

    /// <summary>Steps of all executions.</summary>
    internal long AllSteps { get; private set; }

    /// <summary>
    /// Runs the scenario in every order. Throws <see cref="ScheduleException"/> for the first one that breaks a rule.
    /// </summary>
    /// <param name="start">Creates one execution.</param>
    /// <param name="most">Maximum number of executions; the exploration then ends early.</param>
    /// <returns>True if all orders were run.</returns>
    internal bool Run(Func<Scenario> start, long most)
    {
        try
        {
            do
            {
                RunOnce(start());
                Executions++;
                AllSteps += Steps;
                if (Executions == most && (_random is not null || CanStepBack())) return false;
            }
            while (_random is not null || StepBack());

            return true;
        }
        finally
        {
            // After a failure they stay where they are.
            if (_failure is null)
            {
                foreach (ControlledThread thread in _threads) thread.Dismiss();
            }
        }
    }

    private void RunOnce(Scenario scenario)
    {
        (_depth, _used, Steps) = (0, 0, 0);
        _failure = null;
        _trace.Clear();
        _active = scenario.Bodies.Count;
        _atRest = scenario.AtRest;
        for (int i = 0; i < _active; i++)
        {
            if (i == _threads.Count) _threads.Add(new ControlledThread(this, i));
            _threads[i].Begin(scenario.Bodies[i].Name, scenario.Bodies[i].Body);
        }

        Next(null)!.Resume();
        _finished.Wait();
        try
        {
            if (_failure is null) scenario.Check();
        }
        catch (Exception e)
        {
            _failure = e;
        }

        if (_failure is not null)
        {
            string order = _trace.Length > MostTrace ? $"{_trace.ToString(0, MostTrace)} ..." : _trace.ToString();
            throw new ScheduleException($"execution {Executions + 1}: {_failure.GetType().Name}: {_failure.Message}\n"
                + $"order of the threads (number x steps): {order}\n{_failure.StackTrace}");
        }
    }

    /// <summary>
    /// Called by the thread that runs, at a point or when it blocks: another one may run before it returns.
    /// </summary>
    internal void Switch(ControlledThread me)
    {
        me.Steps++;
        if (++Steps > MostSteps) Fail(new ScheduleException($"no end after {MostSteps} steps"));
        ControlledThread? next = Next(me);
        if (ReferenceEquals(next, me)) return;
        next!.Resume();
        me.Pause();
    }

    /// <summary>The condition of a thread that spins: the others may be about to change what it reads.</summary>
    internal Func<bool> HaveStepped(ControlledThread me)
    {
        (ControlledThread Thread, long Steps)[] others =
            [.. Active().Where(t => !ReferenceEquals(t, me)).Select(static t => (t, t.Steps))];
        return () => Array.TrueForAll(others,
            static o => o.Thread.IsSpinning || !o.Thread.CanRun || o.Thread.Steps > o.Steps);
    }

    /// <summary>A thread has ended: another one runs, or the execution is over.</summary>
    internal void Ended()
    {
        if (Next(null) is { } next) next.Resume();
        else _finished.Release();
    }

    /// <summary>Gives the exploration up. Its threads stay where they are.</summary>
    [DoesNotReturn]
    internal void Fail(Exception exception)
    {
        _failure = exception;
        _finished.Release();
        // tidy: waits because this thread must not continue in code that it has broken
        Thread.Sleep(Timeout.Infinite);
        throw exception;
    }

    private IEnumerable<ControlledThread> Active() => _threads.Take(_active);

    /// <summary>The thread that runs next. Null if all have ended, or none can run, which is a failure.</summary>
    private ControlledThread? Next(ControlledThread? me)
    {
        bool canContinue;
        while (true)
        {
            _options.Clear();
            canContinue = me is { CanRun: true };
            if (canContinue) _options.Add(me!);
            if (!canContinue || _used < _preemptions)
            {
                for (int i = 0; i < _active; i++)
                {
                    if (!ReferenceEquals(_threads[i], me) && _threads[i].CanRun) _options.Add(_threads[i]);
                }
            }

            if (_options.Count == 0) _options.AddRange(Active().Where(static t => t.IsSpinning));
            if (_options.Count > 0) break;
            if (Active().All(static t => t.HasEnded)) return null;
            bool isQuiet = Active().All(static t => t.HasEnded || t.IsIdle);
            if (isQuiet && _atRest is { } atRest && AskAtRest(atRest)) continue;
            Fail(new ScheduleException($"nothing can run: {Describe()}"));
        }

        ControlledThread next = _options[_options.Count == 1 ? 0 : Choose(_options.Count, canContinue)];
        if (_options.Count > 1 && ReferenceEquals(_options[0], me) && !ReferenceEquals(next, me)) _used++;
        Note(next);
        return next;
    }

    private bool AskAtRest(Func<bool> atRest)
    {
        try
        {
            return ControlledThread.Outside(atRest);
        }
        catch (Exception e)
        {
            Fail(e);
            return false;
        }
    }

    private int Choose(int count, bool canContinue)
    {
        // About as many preemptions as allowed are spread over an execution.
        if (_random is not null) return canContinue && _random.Next(RandomSteps) > 0 ? 0 : _random.Next(count);
        if (_depth == _path.Count) _path.Add(new Choice { Count = count });
        Choice choice = _path[_depth++];
        if (choice.Count != count)
            Fail(new ScheduleException($"the scenario is not deterministic: {choice.Count} choices, and now {count}"));
        return choice.Taken;
    }

    private bool CanStepBack() => _path.Exists(static c => c.Taken + 1 < c.Count);

    private bool StepBack()
    {
        while (_path.Count > 0)
        {
            Choice last = _path[^1];
            if (++last.Taken < last.Count) return true;
            _path.RemoveAt(_path.Count - 1);
        }

        return false;
    }

    private int _last = -1;
    private int _times;

    private void Note(ControlledThread next)
    {
        if (Steps == 0) (_last, _times) = (-1, 0);
        if (next.Number == _last)
        {
            _times++;
            return;
        }

        if (_last >= 0) _trace.Append(CultureInfo.InvariantCulture, $"{_last}x{_times} ");
        (_last, _times) = (next.Number, 1);
    }

    private string Describe() => string.Join(", ", Active());

    private sealed class Choice
    {
        internal int Taken { get; set; }

        internal int Count { get; init; }
    }
}
