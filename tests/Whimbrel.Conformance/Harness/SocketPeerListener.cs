using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Conformance;

public sealed class SocketPeerListener(RealRig rig, Socket socket) : PeerListener(rig)
{
    private readonly RealRig _rig = rig;

    public override EndPoint EndPoint => socket.LocalEndPoint!;

    protected override Peer? TryAcceptNow() => socket.Poll(0, SelectMode.SelectRead)
        ? _rig.Add(new SocketPeer(_rig, socket.Accept()), isAccepted: true)
        : null;
}
