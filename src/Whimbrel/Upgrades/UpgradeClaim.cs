using System.Net;
using System.Net.Sockets;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Linux;

namespace Whimbrel;

/// <summary>
/// The new process's end of the conversation with the old one (docs/design/0075-upgrades.md), and the sockets that it
/// sent. Owns their descriptors until listeners take them. Calls block; one at a time, except <see cref="Take"/>, which
/// its owner serializes.
/// </summary>
internal sealed class UpgradeClaim : IDisposable
{
    internal static readonly TimeSpan AnswerLimit = TimeSpan.FromSeconds(5);

    private readonly UpgradeChannel _old;
    private readonly string _path;
    private readonly List<(int Group, string Bound, InheritedSocket Socket)> _sockets = [];
    private readonly HashSet<int> _taken = [];

    private UpgradeClaim(UpgradeChannel old, string path)
    {
        _old = old;
        _path = path;
    }

    /// <summary>True in tests that have both processes in one.</summary>
    private static bool IsForTests =>
        AppContext.TryGetSwitch("Whimbrel.UpgradesWithinProcess", out bool isOn) && isOn;

    /// <summary>Process id of the old process.</summary>
    internal int OldProcess => _old.PeerProcess;

    /// <summary>
    /// Asks the process at a path for its sockets. Returns null if no process listens there. Throws
    /// <see cref="NetworkException"/> if the answer is none that can be used; the old process then continues.
    /// </summary>
    internal static UpgradeClaim? Ask(UnixDomainSocketEndPoint endPoint)
    {
        string path = endPoint.ToString();
        if (SocketFactory.NoSocketAt(endPoint) is { } other)
            throw Failure(path, Errno.EADDRINUSE, $"{other} is at that path, which is no socket and stays as it is: "
                + "give another path");
        if (!Directory.Exists(Path.GetDirectoryName(path)))
            throw Failure(path, Errno.ENOENT, "the folder of the path does not exist: create it, or give another path");
        UpgradeChannel? old = UpgradeChannel.Connect(endPoint, AnswerLimit, out int error);
        if (old is null)
        {
            return error is Errno.ENOENT or Errno.ECONNREFUSED ? null : throw Failure(path, error, error switch
            {
                Errno.EACCES => "not permitted: the old process belongs to another user",
                Errno.EPROTOTYPE => "the socket at that path is none of an upgrade: give a path of its own",
                Errno.EAGAIN => "the old process accepts no connection: it may be stopped by a signal",
                _ => ErrorText.WithoutStop(ErrorText.Of(error)),
            });
        }

        UpgradeClaim claim = new(old, path);
        try
        {
            if (old.PeerUser != UpgradeChannel.OwnUser)
                throw claim.Failure(Errno.EPERM, $"it belongs to user {old.PeerUser}, and this process to user "
                    + $"{UpgradeChannel.OwnUser}: run both as the same user");
            // A server that takes the sockets of its own process would end the other servers of the process.
            if (old.PeerProcess == Environment.ProcessId && !IsForTests)
                throw claim.Failure(Errno.EBUSY, "it is this process, which has another ProcessUpgrade with that path: "
                    + "use one object for all its servers and datagram sockets");
            claim.Receive();
            return claim;
        }
        catch
        {
            claim.Dispose();
            throw;
        }
    }

    private void Receive()
    {
        int error = _old.Send(UpgradeNames.PacketOfQuestion(), AnswerLimit);
        // A process that refuses closes at once, and its packet has the reason.
        if (error is not (0 or Errno.EPIPE)) throw Failure(error, Silence(error));
        while (true)
        {
            string packet = _old.Receive(AnswerLimit, out int descriptor, out error)
                ?? throw Failure(error, Silence(error));
            if (packet == UpgradeNames.End && descriptor < 0) return;
            if (packet.StartsWith(UpgradeNames.Refused, StringComparison.Ordinal))
                throw Failure(Errno.EBUSY, packet[UpgradeNames.Refused.Length..]);
            if (descriptor < 0)
                throw Failure(Errno.EPROTO, $"it sent '{packet}', which is no packet of an upgrade: the process at "
                    + "that path is no server of this version");
            string? mistake = null;
            InheritedSocket? socket = UpgradeNames.TryRead(packet, out int group, out SocketType type, out string given)
                ? InheritedSocket.Claim(descriptor, given, out mistake)
                : null;
            if (socket is null || socket.SocketType != type)
            {
                Syscall.Close(descriptor);
                throw Failure(Errno.ENOTSOCK, $"it sent a descriptor that cannot be used: "
                    + $"{mistake ?? $"'{packet}' does not describe it"}");
            }

            _sockets.Add((group, UpgradeNames.Of(socket.LocalEndPoint), socket));
        }
    }

    private static string Silence(int error) => error switch
    {
        Errno.EAGAIN => $"it has not answered within {AnswerLimit.TotalSeconds:0} s: it may be stopped by a signal, or "
            + "have no CPU time",
        Errno.ECONNRESET or Errno.EPIPE => "it ended before it had sent its sockets: start this process again",
        Errno.EMFILE => "this process has no descriptors left for the sockets: raise LimitNOFILE or ulimit -n",
        _ => ErrorText.WithoutStop(ErrorText.Of(error)),
    };

    /// <summary>
    /// Returns all sockets of one address: that which the old process was given, or that to which they are bound.
    /// Empty if it has none.
    /// </summary>
    internal List<InheritedSocket> Take(EndPoint address, SocketType type)
    {
        string name = UpgradeNames.Of(address);
        int index = _sockets.FindIndex(s => s.Socket.SocketType == type && !_taken.Contains(s.Group)
            && (s.Socket.Name == name || s.Bound == name));
        if (index < 0) return [];
        int group = _sockets[index].Group;
        _taken.Add(group);
        return [.. _sockets.Where(s => s.Group == group).Select(static s => s.Socket)];
    }

    /// <summary>Addresses that <see cref="Take"/> has not returned, as text; empty if there are none.</summary>
    internal string Left => string.Join(", ", _sockets.Where(s => !_taken.Contains(s.Group))
        .Select(static s => s.Socket.LocalEndPoint).Distinct());

    /// <summary>
    /// Reports to the old process that this one is ready, and waits until it has released its sockets. Returns a text
    /// if it has not, but has ended or does not answer, and this process serves alone. Throws if it does not wait any
    /// longer, and continues.
    /// </summary>
    internal string? BeReady(TimeSpan limit)
    {
        // The old process drains what is left: it must be its only owner then.
        foreach ((int group, _, InheritedSocket socket) in _sockets)
        {
            if (!_taken.Contains(group)) Close(socket);
        }

        int error = _old.Send(UpgradeNames.Ready + string.Join(',', _taken), AnswerLimit);
        string? answer = error is 0 or Errno.EPIPE ? _old.Receive(limit, out _, out error) : null;
        if (answer == UpgradeNames.Released) return null;
        if (answer is not null && answer.StartsWith(UpgradeNames.Refused, StringComparison.Ordinal))
            throw Failure(Errno.EBUSY, answer[UpgradeNames.Refused.Length..]);
        return error == Errno.EAGAIN
            ? $"The old process {OldProcess} has not stopped accepting within {limit.TotalSeconds:0.#} s: a callback "
                + "may block one of its loops. Both processes accept until it ends."
            : $"The old process {OldProcess} ended in the middle of the upgrade. This process serves alone.";
    }

    /// <summary>Reports to the old process that the path leads to this one.</summary>
    internal void TellOwned() => _ = _old.Send(UpgradeNames.Owned, AnswerLimit);

    /// <summary>Ends the conversation and closes sockets that no listener has taken. Any thread, repeatedly.</summary>
    public void Dispose()
    {
        _old.Dispose();
        foreach ((_, _, InheritedSocket socket) in _sockets) Close(socket);
    }

    private static void Close(InheritedSocket socket)
    {
        if (socket.Take() is >= 0 and int descriptor) Syscall.Close(descriptor);
    }

    private NetworkException Failure(int error, string why) =>
        Failure($"{_path} (process {OldProcess})", error, why);

    internal static NetworkException Failure(string where, int error, string why) =>
        new(new NetworkError(error, error == Errno.EAGAIN ? ErrorCategory.Timeout : ErrorCategory.Bind,
            $"Cannot take over the sockets of the process at {where}: {why}. Nothing was changed there. See "
            + "docs/symptoms/upgrade-failed.md, or: whimbrel explain upgrade-failed."));
}
