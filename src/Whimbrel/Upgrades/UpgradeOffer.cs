using Whimbrel.Diagnostics;
using Whimbrel.Linux;

namespace Whimbrel;

/// <summary>
/// The old process's end of one conversation (docs/design/0075-upgrades.md). Runs on a thread of its own, and blocks
/// it. Owns the duplicates that it sends.
/// </summary>
/// <param name="peer">Connection with the new process; the caller disposes it.</param>
/// <param name="participants">Owners of the sockets.</param>
/// <param name="readyLimit">Maximum time until the new process is ready.</param>
internal sealed class UpgradeOffer(UpgradeChannel peer, IReadOnlyList<IUpgradable> participants, TimeSpan readyLimit)
{
    private readonly List<OfferedSocket> _offered = [];

    private readonly List<string> _groups = []; // keys of the sockets

    /// <summary>
    /// Sends the sockets and waits until the new process is ready. Returns null if it is; otherwise the reason, and
    /// everything is as before.
    /// </summary>
    internal string? Run()
    {
        string? fault = "it has failed";
        try
        {
            fault = Send() ?? WaitUntilReady();
        }
        finally
        {
            foreach (OfferedSocket socket in _offered) Syscall.Close(socket.Descriptor);
            if (fault is not null)
            {
                foreach (IUpgradable participant in participants) participant.Own();
            }
        }

        return fault;
    }

    /// <summary><see cref="OfferedSocket.Key"/> of the sockets that the new process has taken.</summary>
    internal HashSet<string> Taken { get; } = [];

    /// <summary>Reports to the new process that the sockets are its own, and waits until the path is, too.</summary>
    internal void EndRelease()
    {
        if (peer.Send(UpgradeNames.Released, UpgradeClaim.AnswerLimit) == 0)
            _ = peer.Receive(UpgradeClaim.AnswerLimit, out _, out _);
    }

    private string? Send()
    {
        string? question = peer.Receive(UpgradeClaim.AnswerLimit, out int descriptor, out int error);
        if (descriptor >= 0) Syscall.Close(descriptor);
        if (question is null) return error == Errno.EAGAIN ? "it asked nothing" : "it ended before it asked";
        if (!question.StartsWith(UpgradeNames.Question, StringComparison.Ordinal))
            return Refuse("the other version of its program speaks another protocol: restart instead", question);
        // Otherwise one of two programs with the same path would end the other.
        if (UpgradeNames.ProgramOf(question) is { Length: > 0 } program && UpgradeNames.Program.Length > 0
            && program != UpgradeNames.Program)
            return Refuse($"it is a process of '{UpgradeNames.Program}', and this one is of '{program}': give each "
                + "program a path of its own", question);
        foreach (IUpgradable participant in participants) participant.Offer(_offered);
        foreach (OfferedSocket socket in _offered)
        {
            int group = _groups.IndexOf(socket.Key);
            if (group < 0)
            {
                group = _groups.Count;
                _groups.Add(socket.Key);
            }

            error = socket.Descriptor < 0 ? Errno.EMFILE
                : peer.Send(UpgradeNames.PacketOf(group, socket), UpgradeClaim.AnswerLimit, socket.Descriptor);
            if (error == Errno.EMFILE)
                return Refuse("it has no descriptors left for duplicates: raise LimitNOFILE or ulimit -n", "");
            if (error != 0) return Ended(error, UpgradeClaim.AnswerLimit);
        }

        error = peer.Send(UpgradeNames.End, UpgradeClaim.AnswerLimit);
        return error == 0 ? null : Ended(error, UpgradeClaim.AnswerLimit);
    }

    private string? WaitUntilReady()
    {
        string? answer = peer.Receive(readyLimit, out int descriptor, out int error);
        if (descriptor >= 0) Syscall.Close(descriptor);
        if (answer is null)
        {
            if (error == Errno.EAGAIN)
                _ = peer.Send($"{UpgradeNames.Refused}it waited {readyLimit.TotalSeconds:0.#} s for this process to be "
                    + "ready: raise ProcessUpgrade.ReadyLimit there, or call ReadyAsync earlier",
                    UpgradeClaim.AnswerLimit);
            return Ended(error, readyLimit);
        }

        if (UpgradeNames.GroupsOf(answer) is not { } groups || groups.Any(g => g >= _groups.Count))
            return Refuse("it expected the groups of sockets that this process has taken", answer);
        foreach (int group in groups) Taken.Add(_groups[group]);
        return null;
    }

    private string Refuse(string why, string packet)
    {
        _ = peer.Send(UpgradeNames.Refused + why, UpgradeClaim.AnswerLimit);
        return packet.Length > 0 ? $"it sent '{packet}'" : why;
    }

    private static string Ended(int error, TimeSpan limit) => error == Errno.EAGAIN
        ? $"it was not ready within {limit.TotalSeconds:0.#} s (does it call ProcessUpgrade.ReadyAsync after its last "
            + "server has started?)"
        : error is Errno.ECONNRESET or Errno.EPIPE ? "it ended before it was ready"
        : ErrorText.WithoutStop(ErrorText.Of(error));
}
