using Whimbrel.Schedules;

namespace Whimbrel;

/// <summary>
/// Hides the runtime's class from the sources of the core. One controlled thread runs at a time, and each change of
/// threads is a full barrier, so plain accesses are sufficient.
/// </summary>
internal static class Volatile
{
    public static T Read<T>(ref readonly T location)
    {
        ControlledThread.Point();
        return location;
    }

    public static void Write<T>(ref T location, T value)
    {
        ControlledThread.Point();
        location = value;
    }

    public static void ReadBarrier() => System.Threading.Volatile.ReadBarrier();

    public static void WriteBarrier() => System.Threading.Volatile.WriteBarrier();
}
