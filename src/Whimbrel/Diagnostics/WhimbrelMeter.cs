using System.Diagnostics.Metrics;

namespace Whimbrel.Diagnostics;

/// <summary>
/// The meter "Whimbrel": what servers and loops count anyhow, read at the moment when a listener asks, on the listener's thread. So it costs a message nothing,
/// listened to or not.
/// </summary>
/// <remarks>Made on the thread pool when the first engine has started, as making it takes milliseconds: a listener is told of it then. Lives as long as the process.</remarks>
internal static class WhimbrelMeter
{
    internal const string Name = "Whimbrel";

    internal static readonly Meter Instance = new(Name, typeof(WhimbrelMeter).Assembly.GetName().Version?.ToString(3));

    /// <summary>Makes instruments on the thread pool, once. A listener that is told of one may throw, and that would end the process: then what came behind is missing.</summary>
    /// <param name="isMade">1 from the first call on.</param>
    /// <param name="make">Makes them.</param>
    internal static void MakeOnce(ref int isMade, Action make)
    {
        if (Interlocked.Exchange(ref isMade, 1) == 0) ThreadPool.UnsafeQueueUserWorkItem(Make, make, preferLocal: false);
    }

    private static void Make(Action make)
    {
        try
        {
            make();
        }
        catch (Exception e)
        {
            WhimbrelEventSource.Log.DiagnosticEvent(nameof(DiagnosticEventKind.UserException), $"A listener of the meter \"{Name}\" threw {ErrorText.Of(e)}. Instruments are missing.", "user-exception.md");
        }
    }
}
