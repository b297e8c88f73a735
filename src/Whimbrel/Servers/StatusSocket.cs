using System.Net.Sockets;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;
using Whimbrel.Linux;

namespace Whimbrel;

/// <summary>
/// The Unix socket of <see cref="ServerOptions.StatusPath"/>: who connects gets one line, and then the end. Nothing is read from a peer, and none is kept.
/// On a thread of its own and not on loops or pool: it is asked above all when these are stuck.
/// </summary>
internal sealed class StatusSocket : IDisposable
{
    private const int Backlog = 128;
    private const int SendTimeoutMs = 1_000;
    private const int RestMs = 100;

    private readonly Engine _engine;
    private readonly Socket _listener;
    private volatile bool _isClosed;

    private StatusSocket(Engine engine, Socket listener)
    {
        _engine = engine;
        _listener = listener;
    }

    /// <summary>Throws <see cref="NetworkException"/> when the socket cannot be opened.</summary>
    internal static StatusSocket Open(Engine engine, string path)
    {
        UnixDomainSocketEndPoint endPoint = EndPointRules.StatusAt(path, out _)!;
        Socket listener;
        try
        {
            listener = SocketFactory.ListenForOwner(endPoint, Backlog);
        }
        catch (SocketException e)
        {
            // Sockets of .NET know no error for this one.
            throw NotOpened(endPoint, Directory.Exists(Path.GetDirectoryName(endPoint.ToString())) ? ErrorText.ErrnoOf(e.SocketErrorCode) : Errno.ENOENT);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            throw NotOpened(endPoint, Errno.EACCES);
        }

        StatusSocket status = new(engine, listener);
        try
        {
            new Thread(static s => ((StatusSocket)s!).Run()) { IsBackground = true, Name = "whimbrel-status" }.UnsafeStart(status);
        }
        catch (Exception)
        {
            // Out of threads.
            status.Dispose();
            throw;
        }

        return status;
    }

    private static NetworkException NotOpened(UnixDomainSocketEndPoint endPoint, int error) =>
        new(new NetworkError(error, ErrorCategory.Bind, $"ServerOptions.StatusPath: {BindError.Describe(endPoint, error).Message}"));

    /// <summary>Deletes the path. Does not wait for who is being served.</summary>
    public void Dispose()
    {
        _isClosed = true;
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
                // A peer that has gone, or no descriptor left: that may last.
                Thread.Sleep(RestMs);
            }
            catch (Exception) when (_isClosed)
            {
                return;
            }
            catch (Exception e)
            {
                // User code looks out of a snapshot in one place, an address of somebody's own making. It must not end the process.
                _engine.ReportException("the status of the server", e);
            }
        }
    }
}
