#if MEMORY
using System.Net;
using Whimbrel.Testing;

namespace Whimbrel.Conformance;

/// <summary>A peer in the memory engine's network.</summary>
public sealed class ScriptedPeer(Rig rig, MemoryPeer peer) : Peer(rig)
{
    public override EndPoint? LocalEndPoint => peer.LocalEndPoint;

    public override int TryWrite(ReadOnlySpan<byte> data) => data.IsEmpty ? 0 : peer.Write(data);

    public override int TryRead(Span<byte> buffer) => peer.Read(buffer);

    public override void ShutdownSend() => peer.ShutdownSend();

    public override void Reset() => peer.Reset();

    public override void Close() => peer.Close();
}
#endif
