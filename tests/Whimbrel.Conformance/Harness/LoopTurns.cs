using System.Diagnostics;

namespace Whimbrel.Conformance;

/// <summary>Runs an adopted loop by turns, on the thread of the test.</summary>
internal static class LoopTurns
{
    private static readonly TimeSpan s_deadline = TimeSpan.FromSeconds(20);

    /// <summary>Until the condition holds.</summary>
    internal static void TurnUntil(Loop loop, Func<bool> condition)
    {
        long start = Stopwatch.GetTimestamp();
        while (!condition())
        {
            Assert.True(Stopwatch.GetElapsedTime(start) < s_deadline, "waited too long");
            Assert.True(loop.Turn(TimeSpan.FromMilliseconds(1)));
        }
    }

    /// <summary>Until the task has ended; throws what it threw.</summary>
    internal static void TurnUntilEnd(Loop loop, Task task)
    {
        TurnUntil(loop, () => task.IsCompleted);
        task.GetAwaiter().GetResult();
    }
}
