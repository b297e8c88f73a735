using Whimbrel.Diagnostics;
using Whimbrel.Engines;
using Whimbrel.Linux;

namespace Whimbrel.Datagrams;

/// <summary>
/// The multicast groups of the socket. Loop's thread; other threads join and leave with control actions.
/// </summary>
internal sealed partial class LoopSocket
{
    private readonly List<(MulticastGroup Group, int Interface)> _groups = [];

    /// <summary>
    /// Number of groups that the handler was notified of: groups joined before OnStarted are reported after it.
    /// </summary>
    private int _groupsTold;

    /// <summary>Current groups, as a copy. Visible to any thread that was notified of the join.</summary>
    internal IReadOnlyList<MulticastGroup> Groups { get; private set; } = [];

    /// <summary>
    /// Joins a group, notifies the handler, and completes. A control action, never inside a callback.
    /// </summary>
    internal void Join(MulticastGroup group, int interfaceIndex, Completion<bool> done)
    {
        if (_life is not (Life.Bound or Life.Open))
        {
            done.SetException(new InvalidOperationException($"The socket is not started: it cannot join {group}."));
            return;
        }

        if (_groups.Contains((group, interfaceIndex)))
        {
            done.SetException(new InvalidOperationException($"The socket is a member of {group} already."));
            return;
        }

        int error = _engine.ChangeMembership(this, new GroupMembership(group.Address, group.Source, interfaceIndex),
            joins: true);
        // The old process has joined: the membership belongs to the socket.
        if (error == Errno.EADDRINUSE && Inherited is { IsClaimed: true }) error = 0;
        if (error != 0)
        {
            done.SetException(DatagramErrors.JoinFailure(group, error));
            return;
        }

        _groups.Add((group, interfaceIndex));
        GroupsChanged();
        TellJoined();
        done.SetResult(true);
    }

    /// <summary>Leaves a group, notifies the handler, and completes. A control action.</summary>
    internal void LeaveGroup(MulticastGroup group, int interfaceIndex, Completion<bool> done)
    {
        int index = _groups.IndexOf((group, interfaceIndex));
        if (_life is Life.Closed or Life.Made || index < 0)
        {
            done.SetException(new InvalidOperationException($"The socket is not a member of {group}: it cannot leave "
                + $"it. A group is left as it was joined, with the same interface and source."));
            return;
        }

        // A removed interface has also removed the membership; the system then returns an error, which is ignored.
        _ = _engine.ChangeMembership(this, new GroupMembership(group.Address, group.Source, interfaceIndex),
            joins: false);
        _groups.RemoveAt(index);
        if (index < _groupsTold) _groupsTold--;
        GroupsChanged();
        TellLeft(group);
        done.SetResult(true);
    }

    private void GroupsChanged()
    {
        MulticastGroup[] groups = new MulticastGroup[_groups.Count];
        for (int i = 0; i < groups.Length; i++) groups[i] = _groups[i].Group;
        Groups = groups;
    }

    private void TellJoined()
    {
        if (!_toldOpen || _handler is not { } handler) return;
        while (_groupsTold < _groups.Count)
        {
            MulticastGroup group = _groups[_groupsTold++].Group;
            Enter("OnJoined");
            try
            {
                handler.CallJoined(group);
            }
            catch (Exception e)
            {
                Threw(e);
            }

            Leave();
        }
    }

    private void TellLeft(MulticastGroup group)
    {
        if (!_toldOpen || _handler is not { } handler) return;
        Enter("OnLeft");
        try
        {
            handler.CallLeft(group);
        }
        catch (Exception e)
        {
            Threw(e);
        }

        Leave();
    }

    /// <summary>Notifies the handler that the close has left all groups.</summary>
    private void TellAllLeft()
    {
        List<(MulticastGroup Group, int Interface)> left = [.. _groups];
        _groups.Clear();
        GroupsChanged();
        foreach ((MulticastGroup group, _) in left) TellLeft(group);
    }
}
