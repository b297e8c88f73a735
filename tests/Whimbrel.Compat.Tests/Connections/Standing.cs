namespace Whimbrel.Compat.Tests.Connections;

/// <summary>A loop that stands in a posted action until this object is disposed.</summary>
internal sealed class Standing : IDisposable
{
    private readonly ManualResetEventSlim _stands = new(), _goOn = new();

    internal Standing(Loop loop)
    {
        Assert.True(loop.Post(Stand));
        Assert.True(_stands.Wait(Log.Patience, TestContext.Current.CancellationToken));
    }

    private void Stand()
    {
        _stands.Set();
        _goOn.Wait(Log.Patience);
    }

    public void Dispose() => _goOn.Set();
}
