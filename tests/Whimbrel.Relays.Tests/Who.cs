using System.Text;

namespace Whimbrel.Relays.Tests;

/// <summary>Sends its peer's address as it sees it, then echoes.</summary>
internal sealed class Who : Session
{
    protected override void OnConnected() => Send(Encoding.UTF8.GetBytes($"{RemoteEndPoint}\n"));

    protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);
}
