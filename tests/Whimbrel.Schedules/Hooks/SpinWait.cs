using Whimbrel.Schedules;

namespace Whimbrel;

/// <summary>Hides the runtime's type from the sources of the core: a controlled thread lets another one run.</summary>
internal struct SpinWait
{
    private System.Threading.SpinWait _real;

    public void SpinOnce(int sleep1Threshold = 20)
    {
        if (ControlledThread.Current is { } me) me.Yield();
        else _real.SpinOnce(sleep1Threshold);
    }
}
