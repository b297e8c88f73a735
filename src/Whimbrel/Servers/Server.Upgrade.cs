using System.Net.Sockets;
using Whimbrel.Connections;

namespace Whimbrel;

// Gives the listening sockets to a new process (ProcessUpgrade). Threads of the upgrade.
public partial class Server : IUpgradable
{
    void IUpgradable.Offer(List<OfferedSocket> offered)
    {
        lock (_gate)
        {
            // A stop that has begun may have attached filters to the sockets.
            if (_phase != Phase.Started || !(IsAccepting || _isHolding)) return;
            // Before the descriptors are sent: a stop from now on leaves the sockets to the new process.
            foreach (Listener listener in _listeners) listener.LeavesRest = true;
            foreach (Listener listener in _listeners)
            {
                // A socket of systemd stays systemd's.
                if (listener.Inherited is { IsClaimed: false }) continue;
                // Listeners that joined have the port of the first one, which has the address of the options.
                Listener first = _listeners.Find(l => l.Sharing != PortSharing.Joins
                    && l.EndPoint.Equals(listener.EndPoint)) ?? listener;
                offered.Add(new OfferedSocket(listener.DuplicateDescriptor(), SocketType.Stream, first.Given,
                    listener.EndPoint));
            }
        }
    }

    void IUpgradable.Own()
    {
        Leave(static listener => listener.Inherited is { IsClaimed: false });
        if (Serving is not { } host) return;
        try
        {
            OpenStatus(host);
        }
        catch (NetworkException e)
        {
            // The server serves, and the operator learns why there is no status.
            Report(new DiagnosticEvent(DiagnosticEventKind.Upgrade, e.Message, "upgrade-failed.md"));
        }
    }

    Task IUpgradable.ReleaseAsync(IReadOnlySet<string> taken)
    {
        Leave(listener => listener.Inherited is { IsClaimed: false }
            || taken.Contains(OfferedSocket.KeyOf(SocketType.Stream, listener.EndPoint)));
        return StopAcceptingAsync().AsTask();
    }

    private void Leave(Predicate<Listener> leavesRest)
    {
        lock (_gate)
        {
            foreach (Listener listener in _listeners) listener.LeavesRest = leavesRest(listener);
        }
    }
}
