using System.Net;

namespace Whimbrel.Conformance;

/// <summary>A raw listener; accepts only when told to.</summary>
public abstract class PeerListener(Rig rig)
{
    public abstract EndPoint EndPoint { get; }

    public abstract Peer? TryAccept();

    public Peer Accept()
    {
        Peer? peer = null;
        rig.Until(() => (peer ??= TryAccept()) is not null, "a dial to arrive");
        return peer!;
    }
}
