using System.Diagnostics.CodeAnalysis;
using Whimbrel.Schedules;
using Real = System.Threading.Interlocked;

namespace Whimbrel;

/// <summary>
/// Hides the runtime's class from the sources of the core: each operation is a point of the schedule.
/// </summary>
internal static class Interlocked
{
    [return: NotNullIfNotNull(nameof(location))]
    public static T CompareExchange<T>(ref T location, T value, T comparand)
    {
        ControlledThread.Point();
        return Real.CompareExchange(ref location, value, comparand);
    }

    [return: NotNullIfNotNull(nameof(location))]
    public static T Exchange<T>(ref T location, T value)
    {
        ControlledThread.Point();
        T old = Real.Exchange(ref location, value);
        // Code after it may read a volatile field, which is no point of its own.
        ControlledThread.Point();
        return old;
    }

    public static int Add(ref int location, int value)
    {
        ControlledThread.Point();
        return Real.Add(ref location, value);
    }

    public static long Add(ref long location, long value)
    {
        ControlledThread.Point();
        return Real.Add(ref location, value);
    }

    public static int Increment(ref int location)
    {
        ControlledThread.Point();
        return Real.Increment(ref location);
    }

    public static long Increment(ref long location)
    {
        ControlledThread.Point();
        return Real.Increment(ref location);
    }

    public static int Decrement(ref int location)
    {
        ControlledThread.Point();
        return Real.Decrement(ref location);
    }

    public static long Decrement(ref long location)
    {
        ControlledThread.Point();
        return Real.Decrement(ref location);
    }

    public static int And(ref int location, int value)
    {
        ControlledThread.Point();
        return Real.And(ref location, value);
    }

    public static int Or(ref int location, int value)
    {
        ControlledThread.Point();
        return Real.Or(ref location, value);
    }

    public static void MemoryBarrier()
    {
        ControlledThread.Point();
        Real.MemoryBarrier();
    }
}
