using Whimbrel.Clusters;

namespace Whimbrel.Tests;

internal sealed class MemoryBroker : TestBroker
{
    private readonly MemoryBus _bus = new();
    private readonly List<MemoryBusLink> _links = [];

    public override IGroupBus Connect()
    {
        _links.Add(_bus.Connect());
        return _links[^1];
    }

    public override ValueTask LoseAsync() => Cut(true);

    public override ValueTask RestoreAsync() => Cut(false);

    public override ValueTask DisposeAsync() => default;

    private ValueTask Cut(bool isCut)
    {
        foreach (MemoryBusLink link in _links) link.IsCut = isCut;
        return default;
    }
}
