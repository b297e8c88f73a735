namespace Whimbrel.Schedules;

/// <summary>
/// A real thread that runs only while the <see cref="Explorer"/> has chosen it. It can be stopped at each lock and
/// atomic operation of the core.
/// </summary>
internal sealed class ControlledThread
{
    [ThreadStatic]
    private static ControlledThread? t_current;

    private readonly object _turn = new();
    private bool _mayRun;
    private readonly Explorer _explorer;
    private Action? _body;
    private string _waitsFor = "";

    internal ControlledThread(Explorer explorer, int number)
    {
        _explorer = explorer;
        Number = number;
        new Thread(Run) { IsBackground = true, Name = $"controlled-{number}" }.Start();
    }

    /// <summary>The controlled thread that calls. Null on all others, which no schedule stops.</summary>
    internal static ControlledThread? Current => t_current;

    internal int Number { get; }

    internal string Name { get; private set; } = "";

    internal bool HasEnded { get; private set; } = true;

    /// <summary>Waits for the end of the scenario at the latest: it may wait when everything else has ended.</summary>
    internal bool IsIdle { get; private set; }

    internal bool IsSpinning { get; private set; }

    /// <summary>Number of its steps, in all executions.</summary>
    internal long Steps { get; set; }

    /// <summary>Null while it can run.</summary>
    internal Func<bool>? Condition { get; private set; }

    internal bool CanRun => !HasEnded && (Condition is null || Condition());

    /// <summary>A point of the schedule: another thread may run here.</summary>
    internal static void Point()
    {
        if (t_current is { } me) me._explorer.Switch(me);
    }

    /// <summary>Calls a function in which nothing is a point of the schedule.</summary>
    internal static T Outside<T>(Func<T> function)
    {
        ControlledThread? me = t_current;
        t_current = null;
        try
        {
            return function();
        }
        finally
        {
            t_current = me;
        }
    }

    internal void BlockUntil(Func<bool> condition, bool isIdle = false, string waitsFor = "work")
    {
        _waitsFor = waitsFor;
        Condition = condition;
        IsIdle = isIdle;
        _explorer.Switch(this);
        Condition = null;
        IsIdle = false;
    }

    /// <summary>Runs again when each other thread that can run, and does not spin itself, has made a step.</summary>
    internal void Yield()
    {
        IsSpinning = true;
        Func<bool> condition = _explorer.HaveStepped(this);
        BlockUntil(condition, waitsFor: "a step of another thread");
        IsSpinning = false;
    }

    public override string ToString() => $"{Number} {Name} " + (HasEnded ? "has ended" : CanRun ? "can run"
        : $"waits for {_waitsFor}");

    internal void Begin(string name, Action body)
    {
        Name = name;
        _body = body;
        HasEnded = false;
        Condition = null;
        IsIdle = false;
    }

    internal void Resume()
    {
        lock (_turn)
        {
            _mayRun = true;
            Monitor.Pulse(_turn);
        }
    }

    /// <summary>Waits for its turn. Without spinning, because the next thread needs the processor.</summary>
    internal void Pause()
    {
        lock (_turn)
        {
            while (!_mayRun) Monitor.Wait(_turn);
            _mayRun = false;
        }
    }

    private void Run()
    {
        t_current = this;
        while (true)
        {
            Pause();
            if (_body is not { } body) return;
            try
            {
                body();
            }
            catch (Exception e)
            {
                _explorer.Fail(e);
            }

            HasEnded = true;
            Condition = null;
            _explorer.Ended();
        }
    }

    /// <summary>Ends the thread itself.</summary>
    internal void Dismiss()
    {
        _body = null;
        Resume();
    }
}
