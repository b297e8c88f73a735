using System.Net.Sockets;

namespace Whimbrel.Tool.Top;

/// <summary>Asks a status socket. What goes wrong is a <see cref="TopException"/> with a sentence for the user.</summary>
internal static class TopSource
{
    /// <summary>More than any server says.</summary>
    private const int MostBytes = 1024 * 1024;

    private const int RetryMs = 50;

    /// <summary>A server answers at once, blocked loops or not.</summary>
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(5);

    /// <summary>One line, whole, and what it says.</summary>
    internal static async Task<(byte[] Line, TopSnapshot Snapshot)> ReadAsync(string path, CancellationToken cancellation)
    {
        byte[] line = await ReadLineAsync(path, cancellation);
        TopSnapshot? snapshot = TopSnapshot.Read(line, out int version);
        if (snapshot is not null) return (line, snapshot);
        throw new TopException(version > TopSnapshot.KnownVersion
            ? $"The server at {path} says version {version} of its status, and this tool knows {TopSnapshot.KnownVersion}: take the tool of the server's version."
            : $"What answers at {path} is no status socket of Whimbrel: it said something else.");
    }

    private static async Task<byte[]> ReadLineAsync(string path, CancellationToken cancellation)
    {
        using CancellationTokenSource patience = CancellationTokenSource.CreateLinkedTokenSource(cancellation);
        patience.CancelAfter(s_patience);
        try
        {
            using Socket socket = await ConnectAsync(path, patience.Token);
            using MemoryStream got = new();
            byte[] buffer = new byte[16 * 1024];
            while (true)
            {
                int count = await socket.ReceiveAsync(buffer, patience.Token);
                if (count == 0) throw new TopException($"What answers at {path} is no status socket of Whimbrel: it ended after {got.Length} bytes, without a line.");
                got.Write(buffer, 0, count);
                if (Array.IndexOf(buffer, (byte)'\n', 0, count) is >= 0 and int at) return got.GetBuffer()[..((int)got.Length - count + at)];
                if (got.Length > MostBytes) throw new TopException($"What answers at {path} is no status socket of Whimbrel: its line has no end.");
            }
        }
        catch (OperationCanceledException) when (!cancellation.IsCancellationRequested)
        {
            throw new TopException($"Nothing came from {path} in {s_patience.TotalSeconds:0} seconds: it is no status socket of Whimbrel, or its process stands still.");
        }
        catch (SocketException e)
        {
            throw new TopException($"The status of {path} broke off: {e.Message.TrimEnd('.')}.");
        }
    }

    private static async Task<Socket> ConnectAsync(string path, CancellationToken cancellation)
    {
        while (true)
        {
            if (await TryConnectAsync(path, cancellation) is { } socket) return socket;
            await Task.Delay(RetryMs, cancellation);
        }
    }

    /// <summary>Null when too many ask at this moment.</summary>
    private static async Task<Socket?> TryConnectAsync(string path, CancellationToken cancellation)
    {
        Socket socket = new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        try
        {
            await socket.ConnectAsync(new UnixDomainSocketEndPoint(path), cancellation);
            (Socket result, socket) = (socket, null!);
            return result;
        }
        catch (SocketException e) when (e.SocketErrorCode is SocketError.WouldBlock or SocketError.TryAgain)
        {
            return null;
        }
        catch (Exception e) when (e is SocketException or ArgumentException)
        {
            throw new TopException(WhyNot(path, e));
        }
        finally
        {
            socket?.Dispose();
        }
    }

    private static string WhyNot(string path, Exception exception) => exception switch
    {
        ArgumentException => $"{path} is too long, or no path at all.",
        SocketException { SocketErrorCode: SocketError.AccessDenied } => $"{path} may be asked by its owner only: be the user that the server runs as.",
        _ when !Path.Exists(path) => $"There is no {path}: no server has it open (ServerOptions.StatusPath, or whimbrel serve --status).",
        SocketException { SocketErrorCode: SocketError.ConnectionRefused } => $"Nobody answers at {path}: its server has ended, or it never was a socket.",
        _ => $"{path} cannot be asked: {exception.Message.TrimEnd('.')}.",
    };
}
