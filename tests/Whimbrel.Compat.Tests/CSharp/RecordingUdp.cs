using System.Text;
using CSharpServer;
using Whimbrel.Compat.Tests.Connections;

namespace Whimbrel.Compat.Tests.CSharp;

// Programs as users write them: they use the old API only.
internal sealed class UdpEcho(Service service, Log log, string address = "127.0.0.1", int port = 0)
    : UdpServer(service, address, port)
{
    internal Action<UdpEcho, UdpEndpoint, string>? AtReceived { get; set; }

    internal List<UdpEndpoint> Peers { get; } = [];

    protected override void OnStarted()
    {
        log.Add($"server: started {IsStarted}");
        ReceiveAsync();
    }

    protected override void OnStopped() => log.Add($"server: stopped {IsStarted}");

    protected override void OnReceived(UdpEndpoint endpoint, byte[] buffer, long size)
    {
        if (buffer.Length != size) log.Add("server: a longer array");
        string text = Encoding.UTF8.GetString(buffer);
        lock (Peers) Peers.Add(endpoint);
        AtReceived?.Invoke(this, endpoint, text);
        if (size == 0) ReceiveAsync();
        else SendAsync(endpoint, buffer, 0, size);
    }

    protected override void OnSent(UdpEndpoint endpoint, long sent)
    {
        if (sent == 0) log.Add("server: sent 0");
        ReceiveAsync();
    }

    protected override void OnError(int error, string category, string message) =>
        log.Add($"server: error {error} {category}");
}

internal sealed class UdpAsker : UdpClient
{
    private readonly Log _log;

    internal UdpAsker(Service service, Log log, string address, int port)
        : base(service, address, port) => _log = log;

    internal UdpAsker(Service service, Log log, string address, string scheme)
        : base(service, address, scheme) => _log = log;

    internal bool Arms { get; init; } = true;

    internal Action<UdpAsker>? AtConnected { get; set; }

    internal Action<UdpAsker>? AtDisconnected { get; set; }

    protected override void OnConnected()
    {
        _log.Add($"client: connected {IsConnected}");
        AtConnected?.Invoke(this);
        if (Arms) ReceiveAsync();
    }

    protected override void OnDisconnected()
    {
        _log.Add($"client: disconnected {IsConnected} {SendAsync("late")}");
        AtDisconnected?.Invoke(this);
    }

    protected override void OnJoinedMulticastGroup(string address) => _log.Add("client: joined " + address);

    protected override void OnLeftMulticastGroup(string address) => _log.Add("client: left " + address);

    protected override void OnReceived(UdpEndpoint endpoint, byte[] buffer, long size)
    {
        if (Arms) ReceiveAsync(); // before the bytes are read: they stay valid
        _log.Add("client: received " + Encoding.UTF8.GetString(buffer, 0, (int)size));
    }

    protected override void OnSent(UdpEndpoint endpoint, long sent) => _log.Add($"client: sent {sent}");

    protected override void OnError(int error, string category, string message) =>
        _log.Add($"client: error {error} {category}");
}
