using System.Net;

namespace Whimbrel.Conformance;

/// <summary>A raw listener; accepts only on request.</summary>
public abstract class PeerListener(Rig rig)
{
    public abstract EndPoint EndPoint { get; }

    private readonly Queue<Peer> _early = new();

    protected abstract Peer? TryAcceptNow();

    public Peer? TryAccept() => _early.TryDequeue(out Peer? early) ? early : TryAcceptNow();

    /// <summary>With TLS, accepts available connections and keeps them for the test. Returns true if there were
    /// any.</summary>
    public bool AcceptEarly()
    {
        if (rig.Tls == TlsKind.None || TryAcceptNow() is not { } peer) return false;
        _early.Enqueue(peer);
        return true;
    }

    public Peer Accept()
    {
        Peer? peer = null;
        rig.Until(() => (peer ??= TryAccept()) is not null, "a connection to arrive");
        return peer!;
    }
}
