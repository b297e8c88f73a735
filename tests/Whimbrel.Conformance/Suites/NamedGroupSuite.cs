namespace Whimbrel.Conformance;

/// <summary>Contract 17, further features of groups: names, predicates, text, cancellation, whole messages at a
/// limit.</summary>
public abstract class NamedGroupSuite(Transport transport) : TrafficSuite(transport)
{
    // ------------------------------------------------------------------ names

    [Theory, Contract(17)]
    [InlineData(true)]
    [InlineData(false)]
    public void A_named_group_exists_from_the_first_join_to_the_last_leave(bool onLoop) => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 3);
        NamedGroups groups = server.Groups;
        At(rig, pairs[0].Session, onLoop, () => groups["room"].Broadcast("nobody"u8));
        Assert.Equal(0, groups.Count);
        Assert.False(groups.TryGet("room", out _));
        foreach ((RecordingSession session, _) in pairs.Take(2))
            At(rig, session, onLoop, () => groups["room"].Join(session));
        rig.Until(() => groups["room"].Count == 2, "two members");
        Assert.True(groups.TryGet("room", out SessionGroup? room));
        Assert.Same(room, groups["room"]);
        Assert.Same(room, Assert.Single(groups));
        Assert.Equal("room", room.Name);
        At(rig, pairs[0].Session, onLoop, () => groups["room"].Broadcast("to all", except: pairs[1].Session));
        Assert.Equal("to all", pairs[0].Peer.ReadText(6));
        At(rig, pairs[0].Session, onLoop, () => groups["room"].Leave(pairs[0].Session));
        rig.Until(() => room.Count == 1, "one member");
        Assert.Equal(1, groups.Count);
        At(rig, pairs[1].Session, onLoop, () => groups["room"].Leave(pairs[1].Session));
        rig.Until(() => groups.Count == 0, "the group to be gone");
        Assert.False(groups.TryGet("room", out _));
        rig.Settle();
        Assert.All(pairs, static p => Assert.Equal(-1, p.Peer.TryRead(new byte[1])));
    });

    [Fact, Contract(17)]
    public void A_named_group_is_removed_when_its_last_member_ends() => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 2);
        foreach ((RecordingSession session, _) in pairs) rig.OnLoop(session, () => server.Groups["room"].Join(session));
        pairs[0].Session.Abort();
        pairs[0].Session.End();
        Assert.Equal(1, server.Groups["room"].Count);
        pairs[1].Session.Abort();
        pairs[1].Session.End();
        rig.Until(() => server.Groups.Count == 0, "the group to be gone");
    });

    [Fact, Contract(17)]
    public void A_kept_group_acts_for_its_name_after_it_was_dropped_and_created_again() => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 2);
        SessionGroup one = server.Groups["room"];
        SessionGroup two = server.Groups["room"];
        Assert.NotSame(one, two);
        rig.OnLoop(pairs[0].Session, () => one.Join(pairs[0].Session));
        Assert.Equal(1, two.Count);
        rig.OnLoop(pairs[0].Session, () => two.Leave(pairs[0].Session));
        Assert.Equal(0, server.Groups.Count);
        rig.OnLoop(pairs[1].Session, () => two.Join(pairs[1].Session));
        Assert.Same(two, Assert.Single(server.Groups));
        // The first object is no longer listed: joins and broadcasts go to the listed one.
        rig.OnLoop(pairs[0].Session, () => one.Join(pairs[0].Session));
        Assert.Equal(new BroadcastResult(2, 0), rig.Await(one.BroadcastAsync(Bytes("all"))));
        foreach ((_, Peer peer) in pairs) Assert.Equal("all", peer.ReadText(3));
        one.Clear();
        rig.Until(() => server.Groups.Count == 0, "both to leave");
        Assert.Equal(0, two.Count);
    });

    [Fact, Contract(17)]
    public void Last_leaves_that_meet_first_joins_lose_no_member() => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 4);
        const int Rounds = 60;
        foreach ((RecordingSession session, _) in pairs)
        {
            int round = 0;
            Repeat(rig, () =>
            {
                // Kept from before or looked up again: both are one group.
                SessionGroup room = server.Groups["room"];
                room.Join(session);
                if (round % 3 == 0) server.Groups["room"].Leave(session);
                else room.Leave(session);
                return ++round == Rounds;
            });
            rig.OnLoop(session, () =>
            {
                server.Groups["room"].Join(session);
                server.Groups["room"].Leave(session);
            });
        }

        rig.Join();
        foreach ((RecordingSession session, _) in pairs) rig.OnLoop(session, static () => { });
        rig.Until(() => server.Groups.Count == 0, "all to have left");
        foreach ((RecordingSession session, _) in pairs)
        {
            rig.Elsewhere(() => server.Groups["room"].Join(session));
        }

        rig.Join();
        rig.Until(() => server.Groups["room"].Count == 4, "all in one group");
        Assert.Equal(new BroadcastResult(4, 0), rig.Await(server.Groups["room"].BroadcastAsync(Bytes("found"))));
        foreach ((_, Peer peer) in pairs) Assert.Equal("found", peer.ReadText(5));
    });

    [Fact, Contract(17, 7)]
    public void Joins_broadcasts_and_clears_of_one_caller_take_effect_in_call_order() => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 1);
        (RecordingSession session, Peer peer) = pairs[0];
        foreach (bool onLoop in (bool[])[false, true])
        {
            At(rig, session, onLoop, () =>
            {
                server.Groups["room"].Broadcast("0"u8);
                server.Groups["room"].Join(session);
                server.Groups["room"].Broadcast("1"u8);
                server.Groups["room"].Clear();
                server.Groups["room"].Broadcast("2"u8);
                server.Groups["room"].Join(session);
                server.Groups["room"].Broadcast("3"u8);
                session.Send("4"u8);
                server.Groups["room"].Leave(session);
            });
            Assert.Equal("134", peer.ReadText(3));
            rig.Until(() => server.Groups.Count == 0, "the group to be gone");
        }
    });

    [Fact, Contract(17)]
    public void Removing_a_name_makes_its_members_leave() => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 3);
        Assert.False(server.Groups.Remove("room"));
        foreach ((RecordingSession session, _) in pairs)
        {
            rig.OnLoop(session, () =>
            {
                server.Groups["room"].Join(session);
                server.Groups["other"].Join(session);
            });
        }

        Assert.True(server.Groups.Remove("room"));
        rig.Until(() => server.Groups.Count == 1, "the group to be gone");
        Assert.Equal(3, Assert.Single(server.Groups).Count);
        foreach ((RecordingSession session, _) in pairs)
        {
            rig.OnLoop(session, () => Assert.Equal(["other"], session.Groups.Select(static g => g.Name)));
        }
    });

    [Fact, Contract(17)]
    public void A_group_of_the_users_own_stays_without_members_until_it_is_removed() => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 2);
        SessionGroup lobby = new("lobby");
        rig.OnLoop(pairs[0].Session, () => lobby.Join(pairs[0].Session));
        Assert.True(server.Groups.TryAdd(lobby));
        Assert.False(server.Groups.TryAdd(new SessionGroup("lobby")));
        Assert.Throws<InvalidOperationException>(() => server.Groups.TryAdd(lobby));
        Assert.Throws<InvalidOperationException>(() => new NamedGroups().TryAdd(server.Groups["elsewhere"]));
        Assert.Same(lobby, server.Groups["lobby"]);
        rig.OnLoop(pairs[0].Session, () => lobby.Leave(pairs[0].Session));
        Assert.Same(lobby, server.Groups["lobby"]);
        rig.OnLoop(pairs[1].Session, () => server.Groups["lobby"].Join(pairs[1].Session));
        Assert.Equal(1, lobby.Count);
        Assert.True(server.Groups.Remove("lobby"));
        rig.Until(() => server.Groups.Count == 0, "the lobby to be gone");
        Assert.Equal(0, lobby.Count);
        Assert.True(server.Groups.TryAdd(new SessionGroup("lobby")));
        Assert.True(server.Groups.Remove("lobby"));
        Assert.Equal(0, server.Groups.Count);
    });

    [Fact, Contract(17)]
    public void Sessions_that_are_not_connected_do_not_become_members() => Run(rig =>
    {
        NamedGroups groups = new();
        string early = "";
        RecordingServer server = rig.Serve(s => s.AtConnecting =
            x => early = Assert.Throws<InvalidOperationException>(() => groups["room"].Join(x)).Message);
        Assert.Contains("OnConnected",
            Assert.Throws<InvalidOperationException>(() => groups["room"].Join(new RecordingSession(rig))).Message,
            StringComparison.Ordinal);
        Assert.Equal(0, groups.Count);
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        Assert.Equal("RecordingSession cannot join a group before it is connected. Call Join in OnConnected or later.",
            early);
        Assert.Equal(0, groups.Count);
        // A join and an end that cross: no membership remains in either order.
        rig.Elsewhere(() => groups["room"].Join(session));
        session.Abort();
        session.End();
        rig.Join();
        rig.Elsewhere(() => groups["room"].Join(session));
        rig.Join();
        rig.OnLoop(session.Loop, () => groups["room"].Join(session));
        rig.Until(() => groups.Count == 0, "nothing to stay");
        Assert.Throws<InvalidOperationException>(server.Sessions.Clear);
        peer.Close();
    });

    [Fact, Contract(17)]
    public void A_named_group_takes_sessions_of_other_servers_and_of_clients() => Run(rig =>
    {
        RecordingServer one = rig.Serve();
        RecordingServer two = rig.Serve();
        PeerListener listener = rig.Listen();
        Peer first = rig.ConnectPeer(one.EndPoint!);
        Peer second = rig.ConnectPeer(two.EndPoint!);
        RecordingSession connected = rig.Connect(listener.EndPoint);
        Peer third = listener.Accept();
        foreach (RecordingSession session in (RecordingSession[])[one.Connected(), two.Connected(), connected])
            one.Groups["all"].Join(session);
        Assert.Equal(new BroadcastResult(3, 0), rig.Await(one.Groups["all"].BroadcastAsync(Bytes("all"))));
        foreach (Peer peer in (Peer[])[first, second, third]) Assert.Equal("all", peer.ReadText(3));
        Assert.Equal(0, two.Groups.Count);
    });

    [Fact, Contract(17, 15)]
    public void A_session_knows_its_groups_on_its_loop() => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 1);
        RecordingSession session = pairs[0].Session;
        RecordingSession next = new(rig) { IsSuccessor = true };
        rig.OnLoop(session, () =>
        {
            Assert.Empty(session.Groups);
            server.Groups["a"].Join(session);
            server.Groups["b"].Join(session);
            Assert.Equal(["a", "b"], session.Groups.Select(static g => g.Name).Order());
            server.Groups["a"].Leave(session);
            Assert.Equal(["b"], session.Groups.Select(static g => g.Name));
        });
        Assert.Throws<InvalidOperationException>(() => session.Groups);
        rig.OnLoop(session, () => session.CallHandOver(next));
        next.Until("connected");
        rig.OnLoop(next, () => Assert.Equal(["b"], next.Groups.Select(static g => g.Name)));
        next.Abort();
        next.End();
        Assert.Empty(next.Groups);
        Assert.Empty(new RecordingSession(rig).Groups);
    });

    // ------------------------------------------------------------------ predicates and text

    [Theory, Contract(17)]
    [InlineData(true)]
    [InlineData(false)]
    public void A_broadcast_by_predicate_reaches_those_that_match_and_different_predicates_do_not_mix(bool onLoop) =>
        Run(rig =>
        {
            (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 4);
            for (int i = 0; i < 4; i++) pairs[i].Session.Tag = i;
            int astray = 0;
            Func<Session, bool>[] predicates = [.. Enumerable.Range(0, 4).Select(n => new Func<Session, bool>(s =>
            {
                if (!s.Loop.IsCurrent) Interlocked.Increment(ref astray);
                return (int)s.Tag! >= n;
            }))];
            const int Messages = 120;
            At(rig, pairs[0].Session, onLoop, () =>
            {
                for (int i = 0; i < Messages; i++)
                    Assert.Equal(SendResult.Queued, server.Broadcast(Bytes($"{i:000}"), predicates[i / 2 % 4]));
                Assert.Throws<ArgumentNullException>(() => server.Broadcast("x"u8, (Func<Session, bool>)null!));
            });
            for (int p = 0; p < 4; p++)
            {
                string expected = string.Concat(Enumerable.Range(0, Messages).Where(i => i / 2 % 4 <= p)
                    .Select(static i => $"{i:000}"));
                Assert.Equal(expected, pairs[p].Peer.ReadText(expected.Length));
            }

            Assert.Equal(0, astray);
            rig.Settle();
            Assert.All(pairs, static p => Assert.Equal(-1, p.Peer.TryRead(new byte[1])));
        });

    [Fact, Contract(17)]
    public void A_predicate_may_join_leave_and_broadcast_itself() => Run(
        rig =>
        {
            (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 3);
            foreach ((RecordingSession session, _) in pairs)
                rig.OnLoop(session, () => server.Groups["room"].Join(session));
            int asked = 0;
            rig.OnLoop(pairs[0].Session, () => server.Groups["room"].Broadcast("x"u8, member =>
            {
                if (++asked > 1) return true;
                server.Groups["room"].Clear();
                server.Groups["room"].Join(pairs[1].Session);
                server.Broadcast("y"u8);
                return false;
            }));
            foreach ((_, Peer peer) in pairs) Assert.Equal("y", peer.ReadText(1));
            Assert.Equal(1, server.Groups["room"].Count);
        },
        loops: 1);

    [Theory, Contract(17)]
    [InlineData(3)]
    [InlineData(5_000)]
    public void Text_is_broadcast_as_UTF_8(int length) => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 3);
        string text = string.Concat(Enumerable.Repeat("ä€z", length));
        byte[] bytes = System.Text.Encoding.UTF8.GetBytes(text);
        Assert.Equal(SendResult.Queued, server.Sessions.Broadcast(text));
        Assert.Equal(SendResult.Queued, server.Broadcast(text, pairs[0].Session));
        Assert.Equal(bytes, pairs[0].Peer.Read(bytes.Length));
        Assert.Equal([.. bytes, .. bytes], pairs[1].Peer.Read(2 * bytes.Length));
        rig.Settle();
        Assert.Equal(-1, pairs[0].Peer.TryRead(new byte[1]));
    });

    // ------------------------------------------------------------------ a member at its limit

    [Theory, Contract(17, 8)]
    [InlineData(SlowConsumer.DropNewest, true)]
    [InlineData(SlowConsumer.Wait, true)]
    [InlineData(SlowConsumer.Wait, false)]
    public void A_member_at_its_limit_gets_each_message_that_fits_also_of_those_that_were_joined(SlowConsumer policy,
        bool joined) => Run(rig =>
        {
            (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 2,
                Narrow(rig, policy));
            (RecordingSession slow, Peer peer) = pairs[0];
            byte[] clog = Clog(rig, slow);
            byte[] filler = FillTo(rig, slow, 25);
            SessionGroup room = server.Groups["room"];
            foreach ((RecordingSession session, _) in pairs) rig.OnLoop(session, () => room.Join(session));
            string[] messages = ["0123456789", "abcdefghij", "too long", "four", "x", "y"];
            if (joined)
            {
                // Posted without a pause: processed in one run, or a few.
                rig.Elsewhere(() =>
                {
                    foreach (string message in messages) room.Broadcast(message);
                });
                rig.Join();
            }
            else
            {
                foreach (string message in messages) rig.OnLoop(slow, () => room.Broadcast(message));
            }

            Assert.Equal(string.Concat(messages), pairs[1].Peer.ReadText(string.Concat(messages).Length));
            rig.Until(() => slow.BytesPending == Limit, "the loop of the slow member to have served it, too");
            Assert.Equal([.. clog, .. filler], peer.Read(clog.Length + filler.Length));
            Assert.Equal("0123456789abcdefghijfourx", peer.ReadText(25));
            rig.Settle();
            Assert.Equal(-1, peer.TryRead(new byte[1]));
            Assert.True(slow.IsConnected);
        });

    [Fact, Contract(17, 8)]
    public void With_Disconnect_the_first_message_that_does_not_fit_ends_the_member_and_no_other() => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 2,
            Narrow(rig, SlowConsumer.Disconnect));
        RecordingSession slow = pairs[0].Session;
        Clog(rig, slow);
        FillTo(rig, slow, 15);
        rig.Elsewhere(() =>
        {
            for (int i = 0; i < 3; i++) server.Broadcast("0123456789");
        });
        rig.Join();
        Assert.Equal(CloseCause.SlowConsumer, slow.End());
        Assert.Equal(30, pairs[1].Peer.ReadText(30).Length);
        Assert.True(pairs[1].Session.IsConnected);
    });

    // ------------------------------------------------------------------ cancellation

    [Fact, Contract(17)]
    public void A_broadcast_that_is_cancelled_before_it_begins_reaches_no_member() => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 2);
        CancellationToken cancelled = new(canceled: true);
        Assert.Throws<OperationCanceledException>(
            () => rig.Await(server.Sessions.BroadcastAsync(Bytes("x"), cancellationToken: cancelled)));
        Assert.Throws<OperationCanceledException>(() => rig.Await(server.Sessions.WaitForRoomAsync(cancelled)));
        rig.Settle();
        Assert.All(pairs, static p => Assert.Equal(-1, p.Peer.TryRead(new byte[1])));
    });

    [Fact, Contract(17)]
    public void A_cancel_ends_the_wait_for_space_and_for_the_counts_while_the_loops_are_busy() => Run(
        rig =>
        {
            (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 1);
            (RecordingSession session, Peer peer) = pairs[0];
            using CancellationTokenSource source = new();
            Task[] waits = [];
            int taken = 0;
            using ManualResetEventSlim go = new();
            // The loop cannot process it meanwhile: a real one is blocked in this callback, a virtual one is not run.
            if (!rig.IsVirtual)
            {
                bool stands = false;
                Assert.True(session.Loop.Post(() =>
                {
                    Volatile.Write(ref stands, true);
                    go.Wait(TimeSpan.FromSeconds(60), TestContext.Current.CancellationToken);
                }));
                rig.Until(() => Volatile.Read(ref stands), "the loop to stand");
            }

            rig.Elsewhere(() =>
            {
                Task<BroadcastResult> counts =
                    server.Sessions.BroadcastAsync(Bytes("kept"), cancellationToken: source.Token).AsTask();
                while (server.Broadcast(new byte[16 * 1024]) == SendResult.Queued) taken++;
                Task<BroadcastResult> room =
                    server.Sessions.BroadcastAsync(new byte[20 * 1024], cancellationToken: source.Token).AsTask();
                Task pace = server.Sessions.WaitForRoomAsync(source.Token).AsTask();
                Assert.False(counts.IsCompleted || room.IsCompleted || pace.IsCompleted);
                source.Cancel();
                waits = [counts, room, pace];
            });
            rig.Join();
            rig.Until(() => waits.All(static t => t.IsCompleted), "the waits to end");
            Assert.All(waits, static t => Assert.True(t.IsCanceled));
            go.Set();
            Assert.Equal("kept", peer.ReadText(4));
            Assert.Equal(15, taken);
            Assert.Equal(taken * 16 * 1024, peer.Read(taken * 16 * 1024).Length);
            rig.Settle();
            Assert.Equal(-1, peer.TryRead(new byte[1]));
            Assert.Equal(new BroadcastResult(1, 0), rig.Await(server.Sessions.BroadcastAsync(Bytes("after"))));
            Assert.Equal("after", peer.ReadText(5));
        },
        loops: 1);
}
