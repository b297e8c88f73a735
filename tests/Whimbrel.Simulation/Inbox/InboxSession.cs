namespace Whimbrel.Simulation.Inbox;

/// <summary>A session of an <see cref="InboxScenario"/>: its peer's bytes are commands.</summary>
internal sealed class InboxSession(InboxScenario scenario, InboxPlace place) : Session
{
    internal const byte Answer = 1;
    internal const byte GiveAway = 2;
    internal const byte StartTls = 3;
    internal const byte Part = 4;

    internal InboxPlace Place { get; } = place;

    protected override void OnConnected()
    {
        Place.Session = this;
        Place.IsChanging = Place.IsDeaf;
    }

    protected override void OnReceived(ReadOnlySpan<byte> data)
    {
        foreach (byte command in data)
        {
            scenario.SendInCallback(this);
            switch (command)
            {
                case GiveAway:
                    HandOver(new InboxSession(scenario, Place), holdsSends: scenario.Chance(2));
                    break;
                case StartTls:
                    Upgrade();
                    break;
                case Part:
                    Close();
                    Place.IsClosed = true;
                    break;
            }

            // What the callback sends after that has its place, too.
            scenario.SendInCallback(this);
        }
    }

    protected override void OnDisconnected(CloseReason reason)
    {
        if (reason.Cause == CloseCause.HandedOver) return;
        Place.Ends++;
        Place.Reason = reason;
    }

    private void Upgrade()
    {
        try
        {
            UpgradeToTls(InboxScenario.Tls);
            Place.IsTls = true;
        }
        catch (InvalidOperationException)
        {
            // A SendAsync waits for room, or a caller has closed it.
        }
    }
}
