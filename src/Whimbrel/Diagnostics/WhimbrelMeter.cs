using System.Diagnostics.Metrics;

namespace Whimbrel.Diagnostics;

/// <summary>
/// The meter "Whimbrel": values that servers and loops count anyway, read when a listener requests them, on its thread.
/// Messages cost the same with and without a listener.
/// </summary>
/// <remarks>
/// Created on the thread pool when the first engine has started, because that takes milliseconds; listeners are
/// notified then. Exists as long as the process.
/// </remarks>
internal static class WhimbrelMeter
{
    internal const string Name = "Whimbrel";

    internal static readonly Meter Instance = new(Name, typeof(WhimbrelMeter).Assembly.GetName().Version?.ToString(3));

    /// <summary>
    /// Creates instruments on the thread pool, once. A listener that is notified of one may throw, which would end the
    /// process; the remaining instruments are then missing.
    /// </summary>
    /// <param name="isMade">1 from the first call on.</param>
    /// <param name="make">Function that creates the instruments.</param>
    internal static void MakeOnce(ref int isMade, Action make)
    {
        if (Interlocked.Exchange(ref isMade, 1) == 0)
            ThreadPool.UnsafeQueueUserWorkItem(Make, make, preferLocal: false);
    }

    private static void Make(Action make)
    {
        try
        {
            make();
        }
        catch (Exception e)
        {
            WhimbrelEventSource.Log.DiagnosticEvent(nameof(DiagnosticEventKind.UserException),
                $"A listener of the meter \"{Name}\" threw {ErrorText.Of(e)}. Instruments are missing.",
                "user-exception.md");
        }
    }
}
