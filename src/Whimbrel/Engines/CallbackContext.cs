namespace Whimbrel.Engines;

/// <summary>
/// What an <c>async void</c> hook or override of a user finds as its context. Such a method gives its exceptions to the context that it began in;
/// without one the runtime ends the process. Here they become a notice. Awaits of tasks continue on the thread pool, as they do without a context.
/// Set only around hooks, and around overrides of a class that has one which is async void: a continuation of other code, run inside of the
/// call, would find it as well and leave its loop. One for each engine.
/// </summary>
internal sealed class CallbackContext(Engine engine) : SynchronizationContext
{
    /// <summary>A continuation of an await, or the runtime's last step of an <c>async void</c> method that threw. Any thread.</summary>
    // tidy: allowed because a captured await of foreign code is not the hot path
    public override void Post(SendOrPostCallback d, object? state) => engine.Offload(static call => ((Call)call!).Run(), new Call(engine, d, state));

    /// <summary>At once, on the caller's thread.</summary>
    public override void Send(SendOrPostCallback d, object? state) => new Call(engine, d, state).Run();

    public override SynchronizationContext CreateCopy() => this;

    private sealed class Call(Engine engine, SendOrPostCallback d, object? state)
    {
        internal void Run()
        {
            try
            {
                d(state);
            }
            catch (Exception e)
            {
                engine.ReportException("an async void callback", e, "Nothing was ended. Give a method that returns a Task where there is one (docs/guide/analyzers.md).");
            }
        }
    }
}
