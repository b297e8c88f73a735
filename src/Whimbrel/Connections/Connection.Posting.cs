using System.Diagnostics;

namespace Whimbrel.Connections;

/// <summary>What other code posted to the session (contract 18). Loop's thread.</summary>
internal sealed partial class Connection
{
    /// <summary>Also when the connection is ending: what was taken runs.</summary>
    internal void DrainCall(uint generation, Delegate action, object? state)
    {
        string name = ReferenceEquals(action, Session.RethrowReceived) ? "OnReceivedAsync" : "a posted action";
        Debug.Assert(generation == Generation, "a connection does not end while something posted to it is under way");
        Loop.EnterCallback(this, name);
        Exception? thrown = Session.RunPosted(action, state);
        Loop.LeaveCallback();
        bool wasAwaited = _session.EndPost();
        if (thrown is not null) FailWith(thrown, name);
        AfterCallback();
        if (wasAwaited && _state == ConnectionState.Closed) Loop.Schedule(this);
    }

    /// <summary>What was posted to the session runs before it hands over; it gets nothing else meanwhile.</summary>
    private bool MaySwitch()
    {
        if (!_session.StopPosts())
        {
            CancelSessionTimers();
            Shut(ReceiveGate.HandOver);
            return false;
        }

        if ((_gate & ReceiveGate.HandOver) == 0) return true;
        _gate &= ~ReceiveGate.HandOver;
        _offerPending = false; // the switch offers what is unread
        Loop.Schedule(this);
        return true;
    }
}
