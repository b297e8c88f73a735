using System.Net;
using System.Net.Sockets;
using Whimbrel.Datagrams;
using Whimbrel.Engines;

namespace Whimbrel;

// Gives the sockets to a new process (ProcessUpgrade). Threads of the upgrade.
public sealed partial class DatagramSocket : IUpgradable
{
    private string _given = ""; // address of the options of the first process

    /// <summary>Returns the sockets of the old process at the address; empty to bind.</summary>
    private async ValueTask<List<InheritedSocket>> ClaimAsync(EndPoint endPoint)
    {
        _given = UpgradeNames.Of(endPoint);
        // A socket of systemd stays systemd's.
        if (Options.Upgrade is not { } upgrade || Options.EndPoint is InheritedSocket) return [];
        List<EndPoint> found = await upgrade.ClaimAsync([endPoint], SocketType.Dgram).ConfigureAwait(false);
        List<InheritedSocket> claimed = [.. found.OfType<InheritedSocket>()];
        if (claimed.Count > 0) _given = claimed[0].Name;
        return claimed;
    }

    void IUpgradable.Offer(List<OfferedSocket> offered)
    {
        lock (_gate)
        {
            if (_phase != Phase.Started || Options.EndPoint is InheritedSocket) return;
            foreach (LoopSocket resident in _residents)
            {
                resident.LeavesPath = true;
                offered.Add(new OfferedSocket(resident.DuplicateDescriptor(), SocketType.Dgram, _given,
                    resident.EndPoint));
            }
        }
    }

    void IUpgradable.Own()
    {
        foreach (LoopSocket resident in Volatile.Read(ref _residents))
            resident.LeavesPath = resident.Inherited is { IsClaimed: false };
    }

    async Task IUpgradable.ReleaseAsync(IReadOnlySet<string> taken)
    {
        foreach (LoopSocket resident in Volatile.Read(ref _residents))
        {
            // A socket that the new process does not have receives until the stop.
            resident.LeavesPath = taken.Contains(OfferedSocket.KeyOf(SocketType.Dgram, resident.EndPoint));
            if (!resident.LeavesPath) continue;
            StopWait<bool> released = new(resident.Loop.Engine);
            bool isPosted = resident.Loop.PostControl(
                static (_, r, done, _) =>
                {
                    ((LoopSocket)r!).ReleaseReceiving();
                    ((Completion<bool>)done!).SetResult(true);
                },
                resident,
                released);
            if (isPosted) await released.Task.ConfigureAwait(false);
        }
    }

    void IUpgradable.Report(DiagnosticEvent notice) => Engine.Report(notice);
}
