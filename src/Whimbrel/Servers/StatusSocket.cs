using System.Net.Sockets;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;
using Whimbrel.Linux;

namespace Whimbrel;

/// <summary>
/// The Unix socket of <see cref="ServerOptions.StatusPath"/>: each client receives one line, then the end of stream.
/// Nothing is read from clients, and no connection is kept. Runs on a thread of its own instead of a loop or the pool,
/// because it is needed most when these are blocked.
/// </summary>
internal sealed class StatusSocket : IDisposable
{
    private const int Backlog = 128;
    private const int SendTimeoutMs = 1_000;
    private const int RestMs = 100;

    private readonly Engine _engine;
    private readonly Socket _listener;
    private readonly string _path;
    private readonly ProcessUpgrade? _upgrade;
    private volatile bool _isClosed;

    private StatusSocket(Engine engine, Socket listener, string path, ProcessUpgrade? upgrade)
    {
        _engine = engine;
        _listener = listener;
        _path = path;
        _upgrade = upgrade;
    }

    /// <summary>
    /// Opens the socket. With an upgrade it replaces that of the old process, which still runs. Throws
    /// <see cref="NetworkException"/> if that fails.
    /// </summary>
    internal static StatusSocket Open(Engine engine, string path, ProcessUpgrade? upgrade)
    {
        UnixDomainSocketEndPoint endPoint = EndPointRules.StatusAt(path, out _)!;
        Socket listener;
        try
        {
            listener = upgrade is null
                ? SocketFactory.ListenForOwner(endPoint, Backlog)
                : SocketFactory.ListenInPlace(endPoint, Backlog);
        }
        catch (SocketException e)
        {
            // .NET's sockets have no value for this error.
            throw NotOpened(endPoint, Directory.Exists(Path.GetDirectoryName(endPoint.ToString()))
                ? ErrorText.ErrnoOf(e.SocketErrorCode)
                : Errno.ENOENT);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            throw NotOpened(endPoint, Errno.EACCES);
        }

        StatusSocket status = new(engine, listener, endPoint.ToString(), upgrade);
        try
        {
            new Thread(static s => ((StatusSocket)s!).Run()) { IsBackground = true, Name = "whimbrel-status" }
                .UnsafeStart(status);
        }
        catch (Exception)
        {
            // No thread could be created.
            status.Dispose();
            throw;
        }

        return status;
    }

    private static NetworkException NotOpened(UnixDomainSocketEndPoint endPoint, int error) =>
        new(new NetworkError(error, ErrorCategory.Bind,
            $"ServerOptions.StatusPath: {BindError.Describe(endPoint, error).Message}"));

    /// <summary>Deletes the path. Does not wait for clients that are being served.</summary>
    public void Dispose()
    {
        _isClosed = true;
        // .NET deletes the path at which a socket was bound, and this one was renamed.
        if (_upgrade is { IsReplaced: false }) UpgradeChannel.Delete(_path);
        _listener.Dispose();
    }

    private void Run()
    {
        while (!_isClosed)
        {
            try
            {
                using Socket peer = _listener.Accept();
                peer.SendTimeout = SendTimeoutMs;
                ReadOnlySpan<byte> line = StatusSnapshot.Take(_engine);
                while (line.Length > 0) line = line[peer.Send(line)..];
            }
            catch (SocketException) when (!_isClosed)
            {
                // The client has disconnected, or no descriptor is left, which may last.
                Thread.Sleep(RestMs);
            }
            catch (Exception) when (_isClosed)
            {
                return;
            }
            catch (Exception e)
            {
                // The snapshot calls application code in one place, the text of an end point. Its exception must not
                // end the process.
                _engine.ReportException("the status of the server", e);
            }
        }
    }
}
