namespace Whimbrel.Connections;

/// <summary>
/// Starts a strand on a thread of the pool, or on a thread of the user's dispatcher. The dispatcher is user code, so it
/// is not trusted. If it drops an item, only that session stops. If it runs an item twice, the item runs once. If it
/// rejects an item, or runs it inside its call or on a loop, the pool runs it.
/// </summary>
internal struct StrandStart(ConnectionHost host, Loop loop)
{
    [ThreadStatic]
    private static bool t_isDispatching;

    /// <summary>1 from the call of the dispatcher until it runs the strand.</summary>
    private int _isDue;

    private readonly Action<IThreadPoolWorkItem>? _dispatcher = host.Options.Dispatcher;

    /// <summary>Any thread, outside of the lock.</summary>
    internal void Start(Strand strand)
    {
        if (_dispatcher is not { } dispatcher)
        {
            loop.StrandQueued();
            loop.Engine.Offload(strand);
            return;
        }

        Volatile.Write(ref _isDue, 1);
        bool outer = t_isDispatching;
        t_isDispatching = true;
        try
        {
            dispatcher(strand);
        }
        catch (Exception e)
        {
            UsePool(strand, e);
        }
        finally
        {
            t_isDispatching = outer;
        }
    }

    /// <summary>Returns true for one run after each start, on a thread where callbacks may run.</summary>
    internal bool MayRun(Strand strand)
    {
        if (_dispatcher is null)
        {
            loop.StrandRuns();
            return true;
        }

        if (!t_isDispatching && Loop.Current is null) return Interlocked.Exchange(ref _isDue, 0) == 1;
        if (Volatile.Read(ref _isDue) == 1)
            UsePool(strand, new InvalidOperationException(
                "Dispatcher called Execute inside its own call, or on a loop."));
        return false;
    }

    private readonly void UsePool(Strand strand, Exception exception)
    {
        host.NoteUserException("The Dispatcher", "", exception, "The thread pool runs the callback in its place.");
        // The dispatcher may have kept the item nevertheless: only one of the two runs.
        loop.Engine.Offload(strand);
    }
}
