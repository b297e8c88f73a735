using System.Net.Sockets;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Linux;

namespace Whimbrel;

/// <summary>
/// The path of an upgrade: accepts new processes on a thread of its own, and has one conversation at a time. Owns the
/// listening descriptor. <see cref="Close"/> may be called on any thread.
/// </summary>
internal sealed class UpgradeListener
{
    private const int RestMs = 100;

    private readonly UnixDomainSocketEndPoint _endPoint;
    private readonly Action<UpgradeChannel> _converse;
    private readonly int _fd;
    private int _isBusy;
    private int _busyWith;
    private int _isClosed;

    private UpgradeListener(UnixDomainSocketEndPoint endPoint, int fd, Action<UpgradeChannel> converse)
    {
        _endPoint = endPoint;
        _fd = fd;
        _converse = converse;
    }

    /// <summary>
    /// Opens the path. A socket that is there, of an old or ended process, is replaced in one step. Throws
    /// <see cref="NetworkException"/>.
    /// </summary>
    /// <param name="endPoint">The path.</param>
    /// <param name="converse">Conversation with one new process of the same user; blocks its thread.</param>
    internal static UpgradeListener Open(UnixDomainSocketEndPoint endPoint, Action<UpgradeChannel> converse)
    {
        string path = endPoint.ToString();
        UnixDomainSocketEndPoint temporary;
        try
        {
            temporary = new UnixDomainSocketEndPoint(UpgradeNames.TemporaryOf(endPoint));
        }
        catch (ArgumentOutOfRangeException)
        {
            throw new NetworkException(BindError.Describe(endPoint, Errno.EINVAL));
        }

        int error = SocketFactory.NoSocketAt(endPoint) is null ? 0 : Errno.EADDRINUSE;
        int fd = error != 0 ? -error : UpgradeChannel.Listen(temporary);
        if (fd >= 0)
        {
            error = UpgradeChannel.Rename(temporary.ToString(), path);
            if (error == 0) return Begin(new UpgradeListener(endPoint, fd, converse));
            Syscall.Close(fd);
        }
        else error = -fd;

        UpgradeChannel.Delete(temporary.ToString());
        throw new NetworkException(BindError.Describe(endPoint, error, SocketFactory.NoSocketAt(endPoint)));
    }

    private static UpgradeListener Begin(UpgradeListener listener)
    {
        new Thread(static l => ((UpgradeListener)l!).Run()) { IsBackground = true, Name = "whimbrel-upgrade" }
            .UnsafeStart(listener);
        return listener;
    }

    /// <summary>Stops answering. A conversation that has begun continues.</summary>
    /// <param name="deletesPath">False if the path belongs to another process.</param>
    internal void Close(bool deletesPath)
    {
        if (Interlocked.Exchange(ref _isClosed, 1) == 1) return;
        if (deletesPath) UpgradeChannel.Delete(_endPoint.ToString());
        // Ends the accept; the thread closes the descriptor, so that its number is not reused before.
        _ = Syscall.Shutdown(_fd, SocketAbi.SHUT_RDWR);
    }

    private void Run()
    {
        while (Volatile.Read(ref _isClosed) == 0)
        {
            UpgradeChannel? peer = UpgradeChannel.Accept(_fd);
            if (Volatile.Read(ref _isClosed) == 1) peer?.Dispose();
            else if (peer is null) Thread.Sleep(RestMs); // no descriptor is left, which may last
            else Meet(peer);
        }

        Syscall.Close(_fd);
    }

    private void Meet(UpgradeChannel peer)
    {
        string? refusal = peer.PeerUser != UpgradeChannel.OwnUser
            ? $"it serves processes of user {UpgradeChannel.OwnUser} only, and this one belongs to user {peer.PeerUser}"
            : Interlocked.Exchange(ref _isBusy, 1) == 1
                ? $"it is giving them to process {Volatile.Read(ref _busyWith)} at this moment: start this process "
                    + "again when that upgrade has ended"
                : null;
        if (refusal is not null)
        {
            _ = peer.Send(UpgradeNames.Refused + refusal, UpgradeClaim.AnswerLimit);
            peer.Dispose();
            return;
        }

        Volatile.Write(ref _busyWith, peer.PeerProcess);
        new Thread(() =>
        {
            using (peer) _converse(peer);
            Volatile.Write(ref _isBusy, 0);
        })
        { IsBackground = true, Name = "whimbrel-offer" }.UnsafeStart();
    }
}
