using System.Net;

namespace Whimbrel.Conformance;

/// <summary>Writes and reads one byte at a time.</summary>
public sealed class DripPeer(Rig rig, Peer raw) : Peer(rig)
{
    public override EndPoint? LocalEndPoint => raw.LocalEndPoint;

    public override int TryWrite(ReadOnlySpan<byte> data) => data.IsEmpty ? 0 : raw.TryWrite(data[..1]);

    public override int TryRead(Span<byte> buffer) => raw.TryRead(buffer[..Math.Min(1, buffer.Length)]);

    public override void ShutdownSend() => raw.ShutdownSend();

    public override void Reset() => raw.Reset();

    public override void Close() => raw.Close();
}
