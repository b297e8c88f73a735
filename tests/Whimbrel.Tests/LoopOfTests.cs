using Whimbrel.Testing;

namespace Whimbrel.Tests;

// Runs an action on the only loop of a memory engine, and then everything that follows from it.
internal static class LoopOfTests
{
    internal static void OnLoop(this MemoryEngine engine, Action action)
    {
        Exception? thrown = null;
        engine.GetLoop(0).Post(() =>
        {
            try
            {
                action();
            }
            catch (Exception e)
            {
                thrown = e;
            }
        });
        engine.RunUntilIdle();
        if (thrown is not null) throw new InvalidOperationException("On the loop", thrown);
    }
}
