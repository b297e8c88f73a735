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
    /// Opens the path. A socket of an ended process that is there is replaced. Throws <see cref="NetworkException"/>.
    /// </summary>
    /// <param name="endPoint">The path.</param>
    /// <param name="converse">Conversation with one new process of the same user; blocks its thread.</param>
    /// <param name="replaces">True to replace the socket of the old process, which still answers, too.</param>
    internal static UpgradeListener Open(UnixDomainSocketEndPoint endPoint, Action<UpgradeChannel> converse,
        bool replaces)
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
            try
            {
                error = Place(temporary.ToString(), endPoint, replaces);
                if (error == 0) return Begin(new UpgradeListener(endPoint, Interlocked.Exchange(ref fd, -1), converse));
            }
            finally
            {
                UpgradeChannel.Delete(temporary.ToString());
                if (fd >= 0) Syscall.Close(fd);
            }
        }
        else error = -fd;

        throw new NetworkException(BindError.Describe(endPoint, error, SocketFactory.NoSocketAt(endPoint)));
    }

    /// <summary>
    /// Gives the socket its path. Returns 0 or an error number. Throws if another process has opened the path since
    /// this one looked for an old process.
    /// </summary>
    private static int Place(string temporary, UnixDomainSocketEndPoint endPoint, bool replaces)
    {
        string path = endPoint.ToString();
        if (replaces) return UpgradeChannel.Rename(temporary, path);
        // Of two first processes one creates the link.
        int error = UpgradeChannel.Link(temporary, path);
        if (error == 0) return 0;
        if (error == Errno.EEXIST
            && UpgradeChannel.Connect(endPoint, UpgradeClaim.AnswerLimit, out _) is { } other)
        {
            using (other)
                throw new NetworkException(new NetworkError(error, ErrorCategory.Bind, $"Process {other.PeerProcess} "
                    + $"has opened {path} while this one started: two were started at once. Stop this one, and start "
                    + "it again: it then takes the sockets of the other. "
                    + "See docs/symptoms/upgrade-failed.md, or: whimbrel explain upgrade-failed."));
        }

        // The socket of an ended process, or a file system without links.
        return UpgradeChannel.Rename(temporary, path);
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
