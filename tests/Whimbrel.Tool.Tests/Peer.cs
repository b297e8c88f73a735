using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Whimbrel.Tool.Tests;

// A client that uses nothing of Whimbrel.
internal sealed class Peer : IDisposable
{
    private readonly Socket _socket;
    private readonly NetworkStream _stream;

    public Peer(EndPoint endPoint)
    {
        _socket = new Socket(endPoint.AddressFamily, SocketType.Stream,
            endPoint is IPEndPoint ? ProtocolType.Tcp : ProtocolType.Unspecified);
        _socket.Connect(endPoint);
        _stream = new NetworkStream(_socket, ownsSocket: true);
        Lines = new Lines(new StreamReader(_stream, Encoding.UTF8), "a peer");
    }

    public Lines Lines { get; }

    public Task SayAsync(string line) => SendAsync(Encoding.UTF8.GetBytes(line + "\n"));

    public async Task SendAsync(ReadOnlyMemory<byte> bytes) =>
        await _stream.WriteAsync(bytes, TestContext.Current.CancellationToken);

    public void ShutdownSend() => _socket.Shutdown(SocketShutdown.Send);

    public Task<byte[]> ReadAsync(int count) => Deadline.Within(
        async cancellation =>
        {
            var bytes = new byte[count];
            await _stream.ReadExactlyAsync(bytes, cancellation);
            return bytes;
        },
        () => $"{count} bytes");

    // 0 at the end of the stream.
    public Task<int> ReadSomeAsync(byte[] into) =>
        Deadline.Within(async cancellation => await _stream.ReadAsync(into, cancellation), () => "bytes");

    public void Dispose() => _stream.Dispose();
}
