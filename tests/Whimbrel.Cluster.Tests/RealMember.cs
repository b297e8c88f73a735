using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Threading.Channels;

namespace Whimbrel.Tests;

// A member of a node's groups, as its peer sees it: the received messages, by sender.
internal sealed class RealMember : IAsyncDisposable
{
    private readonly Lock _gate = new();
    private readonly Dictionary<string, List<int>> _heard = new(StringComparer.Ordinal);
    private readonly Socket _socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
    private Task _reading = Task.CompletedTask;

    internal Session Session { get; private set; } = null!;

    internal bool IsConnected => !_reading.IsCompleted;

    // One connection at a time, so that the next accepted session belongs to this peer.
    internal static async Task<RealMember> ConnectAsync(IPEndPoint server, ChannelReader<Session> connected)
    {
        RealMember member = new();
        await member._socket.ConnectAsync(server);
        member.Session = await connected.ReadAsync(TestContext.Current.CancellationToken);
        member._reading = member.ReadAsync();
        return member;
    }

    // Numbers of the messages of this node (or node and group), in order of arrival.
    internal List<int> Heard(string of)
    {
        lock (_gate) return _heard.TryGetValue(of, out List<int>? numbers) ? [.. numbers] : [];
    }

    internal int HeardCount(string of)
    {
        lock (_gate) return _heard.TryGetValue(of, out List<int>? numbers) ? numbers.Count : 0;
    }

    public async ValueTask DisposeAsync()
    {
        _socket.Dispose();
        await _reading;
    }

    private async Task ReadAsync()
    {
        byte[] buffer = new byte[64 * 1024];
        StringBuilder rest = new();
        try
        {
            for (int read; (read = await _socket.ReceiveAsync(buffer.AsMemory())) > 0;)
            {
                string[] words = rest.Append(Encoding.ASCII.GetString(buffer, 0, read)).ToString().Split(' ');
                rest.Clear().Append(words[^1]);
                lock (_gate)
                {
                    foreach (string word in words.AsSpan(0, words.Length - 1)) Report(word);
                }
            }
        }
        catch (Exception e) when (e is SocketException or ObjectDisposedException)
        {
            // Disposed, or closed by the server: tests check IsConnected.
        }
    }

    // "a12-filling": node a, number 12.
    private void Report(string word)
    {
        string head = word.Split('-')[0];
        string of = head.TrimEnd([.. "0123456789"]);
        if (!_heard.TryGetValue(of, out List<int>? numbers)) _heard.Add(of, numbers = []);
        numbers.Add(int.Parse(head.AsSpan(of.Length), CultureInfo.InvariantCulture));
    }
}
