using Whimbrel.Connections;

namespace Whimbrel.Tests;

public sealed class LifeTests
{
    private static readonly ConnectionState[] s_states = Enum.GetValues<ConnectionState>();

    [Fact]
    public void Every_step_goes_down_but_the_one_that_makes_the_object_free()
    {
        foreach (ConnectionState from in s_states)
        {
            foreach (ConnectionState to in s_states)
            {
                if (Life.IsLegal(from, to))
                    Assert.True(to > from || (from, to) == (ConnectionState.Closed, ConnectionState.Free),
                        $"{from} to {to}");
            }
        }
    }

    [Fact]
    public void From_every_state_there_is_a_way_to_the_end_and_only_the_end_makes_free()
    {
        foreach (ConnectionState from in s_states)
        {
            Assert.True(Reaches(from, ConnectionState.Closed), $"{from} has no end");
            Assert.Equal(from == ConnectionState.Closed, Life.IsLegal(from, ConnectionState.Free));
        }
    }

    [Fact]
    public void A_step_that_there_is_not_is_noticed_and_made()
    {
        Life life = default;
        Assert.True(life.TryGo(ConnectionState.Connecting));
        Assert.True(life.TryGo(ConnectionState.Open));
        Assert.True(life.TryGo(ConnectionState.Detaching));
        Assert.False(life.TryGo(ConnectionState.Lingering));
        Assert.Equal(ConnectionState.Lingering, life.State);
        Assert.False(life.TryGo(ConnectionState.Open));
    }

    [Fact]
    public void The_first_cause_is_kept()
    {
        Life life = default;
        life.Because(default);
        life.Because(new CloseReason(CloseCause.PeerReset, 104));
        life.Because(new CloseReason(CloseCause.LocalClose));
        Assert.Equal((CloseCause.PeerReset, 104), (life.Reason.Cause, life.Reason.ErrorCode));
    }

    [Fact]
    public void The_peer_was_first_when_its_end_was_reported_before_ours_began()
    {
        Life told = default;
        told.PeerFinishes();
        told.BeginShutdown();
        Assert.True(told.PeerWasFirst);

        Life ours = default;
        ours.BeginShutdown();
        ours.PeerFinishes();
        Assert.False(ours.PeerWasFirst);

        // The user has not seen a held FIN: shutting down the own side is not a response to it then.
        Life held = default;
        held.HoldPeersEnd();
        held.BeginShutdown();
        held.PeerFinishes();
        Assert.False(held.PeerWasFirst);
    }

    [Fact]
    public void A_held_end_comes_again_and_one_that_was_interrupted_too()
    {
        Life life = default;
        life.HoldPeersEnd();
        Assert.Equal((PeerHalf.Held, true, false), (life.Peer, life.HoldsPeersEnd, life.PeerHasFinished));
        life.PeerFinishes();
        Assert.Equal((PeerHalf.Finished, false, true), (life.Peer, life.HoldsPeersEnd, life.PeerHasFinished));
        life.HoldPeersEnd();
        Assert.Equal((PeerHalf.HeldAgain, true, false), (life.Peer, life.HoldsPeersEnd, life.PeerHasFinished));
        life.PeerFinishes();
        life.PeersEndWasTold();
        life.PeerFinishes();
        Assert.Equal((PeerHalf.Told, true), (life.Peer, life.PeerWasFirst));
    }

    [Fact]
    public void A_dropped_end_is_open_again_unless_the_session_was_about_to_be_notified()
    {
        Life life = default;
        life.HoldPeersEnd();
        life.DropPeersEnd();
        Assert.Equal((PeerHalf.Open, false), (life.Peer, life.PeerWasFirst));
        life.PeerFinishes();
        life.HoldPeersEnd();
        life.DropPeersEnd();
        Assert.Equal(PeerHalf.Finished, life.Peer);
    }

    [Fact]
    public void A_session_was_connected_from_OnConnected_to_the_end()
    {
        Life life = default;
        Assert.False(life.WasConnected);
        foreach (Heard heard in (Heard[])[Heard.Connected, Heard.ServerStopping, Heard.Disconnecting])
        {
            life.Hears(heard);
            Assert.True(life.WasConnected);
        }
    }

    private static bool Reaches(ConnectionState from, ConnectionState end) =>
        from == end || s_states.Any(next => next != ConnectionState.Free && next > from && Life.IsLegal(from, next)
            && Reaches(next, end)) ||
        (from == ConnectionState.Free && Reaches(ConnectionState.Connecting, end));
}
