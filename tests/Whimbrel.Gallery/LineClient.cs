using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Whimbrel.Gallery;

/// <summary>A TCP client that sends text and reads lines, as nc does. It uses .NET's sockets only.</summary>
internal sealed class LineClient : IDisposable
{
    private readonly Stream _stream;
    private readonly StreamReader _reader;

    public LineClient(Stream stream)
    {
        _stream = stream;
        _reader = new StreamReader(stream, Encoding.UTF8, false, 1024, leaveOpen: true);
    }

    public static async Task<LineClient> ConnectAsync(IPEndPoint endPoint)
    {
        TcpClient client = new();
        await client.ConnectAsync(endPoint).WaitAsync(RunningProgram.Patience);
        return new LineClient(client.GetStream());
    }

    public async Task SendAsync(string text) =>
        await _stream.WriteAsync(Encoding.UTF8.GetBytes(text)).AsTask().WaitAsync(RunningProgram.Patience);

    /// <summary>The next line, or null at the end.</summary>
    public async Task<string?> ReadLineAsync() =>
        await _reader.ReadLineAsync().WaitAsync(RunningProgram.Patience);

    public async Task<string?> AskAsync(string text)
    {
        await SendAsync(text);
        return await ReadLineAsync();
    }

    public void Dispose() => _stream.Dispose();
}
