using System.Diagnostics;

namespace Whimbrel.Conformance;

/// <summary>Runs an adopted loop by iterations, on the test's thread.</summary>
internal static class LoopTurns
{
    private static readonly TimeSpan s_deadline = TimeSpan.FromSeconds(20);

    /// <summary>Runs until the condition is true.</summary>
    internal static void TurnUntil(Loop loop, Func<bool> condition)
    {
        long start = Stopwatch.GetTimestamp();
        while (!condition())
        {
            Assert.True(Stopwatch.GetElapsedTime(start) < s_deadline, "waited too long");
            Assert.True(loop.Turn(TimeSpan.FromMilliseconds(1)));
        }
    }

    /// <summary>Runs until the task has ended, and rethrows its exception.</summary>
    internal static void TurnUntilEnd(Loop loop, Task task)
    {
        TurnUntil(loop, () => task.IsCompleted);
        task.GetAwaiter().GetResult();
    }
}
