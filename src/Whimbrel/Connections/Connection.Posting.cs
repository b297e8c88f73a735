using System.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>Work that other code has posted to the session (contract 18). Loop's thread.</summary>
internal sealed partial class Connection
{
    /// <summary>Runs a post, even while the connection is ending, because an accepted post always runs.</summary>
    internal void DrainCall(uint generation, Delegate action, object? state)
    {
        string name = ReferenceEquals(action, Session.RethrowReceived) ? "OnReceivedAsync" : UserCode.PostedAction;
        Debug.Assert(generation == Generation, "a connection does not end while something posted to it is under way");
        Loop.EnterCallback(this, name);
        Loop.Mailbox.EnterPosted(isAsync: action is Func<Task>);
        Exception? thrown = Session.RunPosted(action, state);
        Loop.Mailbox.LeavePosted();
        Loop.LeaveCallback();
        bool wasAwaited = Session.EndPost();
        if (thrown is not null) _tenancy.Driver.Fail(Here, thrown, name);
        AfterCallback();
        if (wasAwaited && State == ConnectionState.Closed) Loop.Schedule(this);
    }

    /// <summary>
    /// True if the hand-over may take place. Posts to the session run before it; nothing else is delivered until then.
    /// </summary>
    private bool MaySwitch()
    {
        if (!Session.StopPosts())
        {
            _timers.CancelAll();
            Shut(ReceiveGate.HandOver);
            return false;
        }

        if (!_tenancy.Driver.Release(ReceiveGate.HandOver)) return true;
        _tenancy.Driver.ForgetOffer(); // the switch delivers the unread data
        Loop.Schedule(this);
        return true;
    }
}
