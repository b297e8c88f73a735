namespace Whimbrel.Compat.Tests.Connections;

/// <summary>Callbacks elsewhere, for one test. The tests of this project run one after the other.</summary>
internal sealed class Setting : IDisposable
{
    private readonly Scheduling _before = CompatOptions.Callbacks;

    internal Setting(Scheduling callbacks) => CompatOptions.Callbacks = callbacks;

    public void Dispose() => CompatOptions.Callbacks = _before;
}
