using System.Net.Sockets;

namespace Whimbrel.Tool.Top;

/// <summary>Reads a status socket. Failures are a <see cref="TopException"/> with a sentence for the user.</summary>
internal static class TopSource
{
    /// <summary>Limit above the size of any snapshot.</summary>
    private const int MostBytes = 1024 * 1024;

    private const int RetryMs = 50;

    /// <summary>Time limit. A server answers at once, even with blocked loops.</summary>
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(5);

    /// <summary>Reads one complete line and parses it.</summary>
    internal static async Task<(byte[] Line, TopSnapshot Snapshot)> ReadAsync(string path,
        CancellationToken cancellation)
    {
        byte[] line = await ReadLineAsync(path, cancellation);
        TopSnapshot? snapshot = TopSnapshot.Read(line, out int version);
        if (snapshot is not null) return (line, snapshot);
        throw new TopException(version > TopSnapshot.KnownVersion
            ? $"The server at {path} sends status version {version}, and this tool knows {TopSnapshot.KnownVersion}: "
                + $"use the tool of the server's version."
            : $"What answers at {path} is not a status socket of Whimbrel: it sent something else.");
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
                if (count == 0)
                    throw new TopException($"What answers at {path} is not a status socket of Whimbrel: it ended after "
                        + $"{got.Length} bytes, without a line.");
                got.Write(buffer, 0, count);
                if (Array.IndexOf(buffer, (byte)'\n', 0, count) is >= 0 and int at)
                    return got.GetBuffer()[..((int)got.Length - count + at)];
                if (got.Length > MostBytes)
                    throw new TopException(
                        $"What answers at {path} is not a status socket of Whimbrel: its line has no end.");
            }
        }
        catch (OperationCanceledException) when (!cancellation.IsCancellationRequested)
        {
            throw new TopException($"Nothing was received from {path} in {s_patience.TotalSeconds:0} seconds: it is "
                + $"not a status socket of Whimbrel, or its process is stopped.");
        }
        catch (SocketException e)
        {
            throw new TopException($"Reading {path} failed: {e.Message.TrimEnd('.')}.");
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

    /// <summary>Connects. Returns null if too many clients connect at this moment.</summary>
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
        ArgumentException => $"{path} is too long, or not a valid path.",
        SocketException { SocketErrorCode: SocketError.AccessDenied } =>
            $"{path} can be read by its owner only: run the tool as the server's user.",
        _ when !Path.Exists(path) =>
            $"{path} does not exist: no server has it open (ServerOptions.StatusPath, or whimbrel serve --status).",
        SocketException { SocketErrorCode: SocketError.ConnectionRefused } =>
            $"No server answers at {path}: it has ended, or the path is not a socket.",
        _ => $"{path} cannot be read: {exception.Message.TrimEnd('.')}.",
    };
}
