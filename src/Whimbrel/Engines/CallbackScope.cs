namespace Whimbrel.Engines;

/// <summary>The calling thread has the engine's <see cref="CallbackContext"/> until this is disposed. See there for which calls have it.</summary>
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
