namespace Whimbrel.Diagnostics;

/// <summary>
/// Calls an application callback that returns nothing, and reports its exceptions after an await if it is <c>async
/// void</c>: without a synchronization context the runtime would end the process. For packages above the core, which
/// compile this file.
/// </summary>
internal static class HookNet
{
    /// <param name="hook">Callback; exceptions before its first await are thrown to the caller.</param>
    /// <param name="report">Receives later exceptions. Any thread.</param>
    internal static void Call(Action hook, Action<Exception> report)
    {
        SynchronizationContext? outer = SynchronizationContext.Current;
        SynchronizationContext.SetSynchronizationContext(new Context(report));
        try
        {
            hook();
        }
        finally
        {
            SynchronizationContext.SetSynchronizationContext(outer);
        }
    }

    private sealed class Context(Action<Exception> report) : SynchronizationContext
    {
        public override void Post(SendOrPostCallback d, object? state) =>
            ThreadPool.UnsafeQueueUserWorkItem(_ => Send(d, state), null);

        public override void Send(SendOrPostCallback d, object? state)
        {
            try
            {
                d(state);
            }
            catch (Exception e)
            {
                report(e);
            }
        }

        public override SynchronizationContext CreateCopy() => this;
    }
}
