namespace Whimbrel.Diagnostics;

/// <summary>
/// Calls a hook of a user's that returns nothing, and reports what it throws after an await when it is <c>async void</c>: without a context of
/// ours the runtime would end the process. For packages above the core, which compile this file.
/// </summary>
internal static class HookNet
{
    /// <param name="hook">What it throws before its first await is thrown here.</param>
    /// <param name="report">Gets what it throws later. Any thread.</param>
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
        public override void Post(SendOrPostCallback d, object? state) => ThreadPool.UnsafeQueueUserWorkItem(_ => Send(d, state), null);

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
