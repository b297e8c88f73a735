namespace Whimbrel.Compat.Tests.Connections;

/// <summary>Sets the scheduling of callbacks for one test. The tests of this project run one at a time.</summary>
internal sealed class Setting : IDisposable
{
    private readonly Scheduling _before = CompatOptions.Callbacks;

    internal Setting(Scheduling callbacks) => CompatOptions.Callbacks = callbacks;

    public void Dispose() => CompatOptions.Callbacks = _before;
}
