namespace Whimbrel.Engines;

/// <summary>
/// SynchronizationContext of <c>async void</c> hooks and overrides of users. The runtime passes the exceptions of such
/// a method to the context in which it started; without a context the process ends. This context reports them as
/// diagnostic events. Awaits of tasks continue on the thread pool, as without a context. It is set only around hooks,
/// and around overrides of a class that has an <c>async void</c> override. Otherwise a continuation of other code that
/// runs inside the call would capture it and leave its loop. One instance for each engine.
/// </summary>
internal sealed class CallbackContext(Engine engine) : SynchronizationContext
{
    /// <summary>
    /// Runs a continuation of an await, or the runtime's last step of an <c>async void</c> method that threw. Any
    /// thread.
    /// </summary>
    public override void Post(SendOrPostCallback d, object? state) =>
        // tidy: allowed because a captured await of foreign code is not the hot path
        engine.Offload(static call => ((Call)call!).Run(), new Call(engine, d, state));

    /// <summary>Runs the callback immediately, on the caller's thread.</summary>
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
                engine.ReportException("an async void callback", e, "Nothing was ended. Give a method that returns a "
                    + "Task where there is one (docs/guide/analyzers.md).");
            }
        }
    }
}
