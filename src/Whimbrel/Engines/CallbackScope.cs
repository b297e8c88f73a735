namespace Whimbrel.Engines;

/// <summary>
/// Sets the engine's <see cref="CallbackContext"/> on the calling thread until the scope is disposed.
/// <see cref="CallbackContext"/> lists the calls that have it.
/// </summary>
internal readonly ref struct CallbackScope
{
    private readonly SynchronizationContext? _outer;
    private readonly bool _isSet; // a default one does nothing

    internal CallbackScope(Engine engine)
    {
        _isSet = true;
        _outer = SynchronizationContext.Current;
        SynchronizationContext.SetSynchronizationContext(engine.CallbackContext);
    }

    public void Dispose()
    {
        if (_isSet) SynchronizationContext.SetSynchronizationContext(_outer);
    }
}
