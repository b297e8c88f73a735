namespace Whimbrel.Compat.Tests.Connections;

/// <summary>Sets the limits of queued data for one test. The tests of this project run one at a time.</summary>
internal sealed class SendRules : IDisposable
{
    private readonly TimeSpan _stall = CompatOptions.StallTimeout;
    private readonly long _budget = CompatOptions.SendBudgetBytes;

    internal SendRules(TimeSpan stall, long budget)
    {
        CompatOptions.StallTimeout = stall;
        CompatOptions.SendBudgetBytes = budget;
    }

    public void Dispose()
    {
        CompatOptions.StallTimeout = _stall;
        CompatOptions.SendBudgetBytes = _budget;
    }
}
