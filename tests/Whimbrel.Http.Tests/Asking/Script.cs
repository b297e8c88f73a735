using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Whimbrel.Http.Tests.Asking;

/// <summary>A server that runs a script on each connection, correct or faulty.</summary>
internal sealed class Script : IAsyncDisposable
{
    internal const string Ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

    internal static readonly TimeSpan Patience = TimeSpan.FromSeconds(30);

    private readonly Socket _listener;
    private readonly Func<Line, Task> _serve;
    private readonly List<Task> _served = [];
    private readonly List<Socket> _sockets = [];

    internal Script(Func<Line, Task> serve, EndPoint? endPoint = null)
    {
        _serve = serve;
        endPoint ??= new IPEndPoint(IPAddress.Loopback, 0);
        _listener = new Socket(endPoint.AddressFamily, SocketType.Stream, ProtocolType.Unspecified);
        _listener.Bind(endPoint);
        _listener.Listen();
        _ = AcceptAsync();
    }

    internal string Url => $"http://127.0.0.1:{((IPEndPoint)_listener.LocalEndPoint!).Port}";

    /// <summary>Number of connections accepted so far.</summary>
    internal int Count
    {
        get
        {
            lock (_served) return _served.Count;
        }
    }

    /// <summary>The heads of all requests, in order of arrival.</summary>
    internal List<string> Heads { get; } = [];

    private async Task AcceptAsync()
    {
        try
        {
            while (true)
            {
                Socket socket = await _listener.AcceptAsync();
                lock (_served)
                {
                    _sockets.Add(socket);
                    _served.Add(ServeAsync(new Line(this, socket, _served.Count)));
                }
            }
        }
        catch (Exception e) when (e is SocketException or ObjectDisposedException)
        {
            // The script was disposed.
        }
    }

    private async Task ServeAsync(Line line)
    {
        try
        {
            using (line.Socket) await _serve(line);
        }
        catch (Exception e) when (e is IOException or SocketException or ObjectDisposedException)
        {
            // The client has closed the connection, which it may do.
        }
    }

    public async ValueTask DisposeAsync()
    {
        _listener.Dispose();
        Task[] served;
        lock (_served)
        {
            foreach (Socket socket in _sockets) socket.Dispose();
            served = [.. _served];
        }

        await Task.WhenAll(served).WaitAsync(Patience);
    }

    /// <summary>One connection.</summary>
    internal sealed class Line(Script script, Socket socket, int index)
    {
        private readonly List<byte> _read = [];

        internal Socket Socket => socket;

        internal Stream Stream { get; } = new NetworkStream(socket, ownsSocket: false);

        /// <summary>0 for the first connection.</summary>
        internal int Index => index;

        internal Task SendAsync(string text) => Stream.WriteAsync(Encoding.Latin1.GetBytes(text)).AsTask();

        internal Task OkAsync(string body = "ok", string fields = "") =>
            SendAsync($"HTTP/1.1 200 OK\r\n{fields}Content-Length: {body.Length}\r\n\r\n{body}");

        /// <summary>The next request head; null after the client's FIN. Bytes after the head stay buffered.</summary>
        internal async Task<string?> HeadAsync()
        {
            string? head = await UntilAsync("\r\n\r\n");
            if (head is not null)
            {
                lock (script.Heads) script.Heads.Add(head);
            }

            return head;
        }

        internal async Task<string?> UntilAsync(string end)
        {
            byte[] chunk = new byte[4096];
            while (true)
            {
                string text = Encoding.Latin1.GetString([.. _read]);
                int at = text.IndexOf(end, StringComparison.Ordinal);
                if (at >= 0)
                {
                    _read.RemoveRange(0, at + end.Length);
                    return text[..(at + end.Length)];
                }

                int count = await Stream.ReadAsync(chunk);
                if (count == 0) return null;
                _read.AddRange(chunk[..count]);
            }
        }

        /// <summary>Sends this response to each request.</summary>
        internal async Task AnswerAllAsync(string answer)
        {
            while (await HeadAsync() is not null) await SendAsync(answer);
        }

        /// <summary>Waits until the client closes the connection.</summary>
        internal async Task EndAsync()
        {
            byte[] chunk = new byte[4096];
            while (await Stream.ReadAsync(chunk) > 0)
            {
            }
        }
    }
}
