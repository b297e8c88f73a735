#if MEMORY
using System.Net;
using Whimbrel.Testing;

namespace Whimbrel.Conformance;

public sealed class ScriptedPeerListener(MemoryRig rig, MemoryPeerListener listener) : PeerListener(rig)
{
    private readonly MemoryRig _rig = rig;

    public override EndPoint EndPoint => listener.EndPoint;

    protected override Peer? TryAcceptNow() =>
        listener.TryAccept() is { } peer ? _rig.Add(new ScriptedPeer(_rig, peer), isAccepted: true) : null;
}
#endif
