using System.Text;

namespace Whimbrel.Relays.Tests;

/// <summary>Says who it takes its peer for, then everything back.</summary>
internal sealed class Who : Session
{
    protected override void OnConnected() => Send(Encoding.UTF8.GetBytes($"{RemoteEndPoint}\n"));

    protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);
}
