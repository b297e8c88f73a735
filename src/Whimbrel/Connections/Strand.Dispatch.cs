using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// On which thread a strand runs: one of the pool, or whichever the user's dispatcher takes. The dispatcher is user code: what it loses is
/// lost to that session only, what it throws or runs in the wrong place goes to the pool, and what it runs twice runs once.
/// </summary>
internal sealed partial class Strand
{
    [ThreadStatic]
    private static bool t_isDispatching;

    private readonly Action<IThreadPoolWorkItem>? _dispatcher;

    /// <summary>1 from the call of the dispatcher until something runs what it was given.</summary>
    private int _isDue;

    /// <summary>There is something to run, and nobody runs it or was asked to. Any thread, outside of the gate.</summary>
    private void Start()
    {
        if (_isHome) StartAtHome();
        else StartOnPool();
    }

    private void StartOnPool()
    {
        if (_dispatcher is null)
        {
            _loop.StrandQueued();
            _loop.Engine.Offload(this);
            return;
        }

        Volatile.Write(ref _isDue, 1);
        bool outer = t_isDispatching;
        t_isDispatching = true;
        try
        {
            _dispatcher(this);
        }
        catch (Exception e)
        {
            NoteDispatcher(e);
        }
        finally
        {
            t_isDispatching = outer;
        }
    }

    /// <summary>The one run that <see cref="Start"/> asked for, and not on a loop nor inside the stack of whoever posted: a callback would run there.</summary>
    private bool MayRun()
    {
        if (_dispatcher is null)
        {
            _loop.StrandRuns();
            return true;
        }

        if (!t_isDispatching && Loop.Current is null) return Interlocked.Exchange(ref _isDue, 0) == 1;
        if (Volatile.Read(ref _isDue) == 1)
            NoteDispatcher(
                new InvalidOperationException("Dispatcher called Execute inside its own call, or on a loop."));
        return false;
    }

    private void NoteDispatcher(Exception exception)
    {
        _host.NoteUserException("The Dispatcher", "", exception, "The thread pool runs the callback in its place.");
        // It may have kept the item all the same: only one of the two runs.
        _loop.Engine.Offload(this);
    }
}
