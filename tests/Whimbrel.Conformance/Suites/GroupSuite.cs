namespace Whimbrel.Conformance;

/// <summary>Contract 17: groups, from any thread.</summary>
public abstract class GroupSuite(Transport transport) : TrafficSuite(transport)
{
    [Theory, Contract(17)]
    [InlineData(true)]
    [InlineData(false)]
    public void A_broadcast_reaches_the_members_only(bool onLoop) => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 4);
        SessionGroup group = new("some");
        foreach ((RecordingSession session, _) in pairs.Take(3)) At(rig, session, onLoop, () => group.Join(session));
        rig.Until(() => group.Count == 3, "three members");
        At(rig, pairs[2].Session, onLoop, () => group.Leave(pairs[2].Session));
        rig.Until(() => group.Count == 2, "two members");
        At(rig, pairs[0].Session, onLoop, () => Assert.Equal(SendResult.Queued, group.Broadcast("hello"u8)));
        Assert.Equal("hello", pairs[0].Peer.ReadText(5));
        Assert.Equal("hello", pairs[1].Peer.ReadText(5));
        rig.Settle();
        Assert.Equal(-1, pairs[2].Peer.TryRead(new byte[1]));
        Assert.Equal(-1, pairs[3].Peer.TryRead(new byte[1]));
        Assert.Equal(4, server.Sessions.Count);
    });

    [Theory, Contract(17)]
    [InlineData(true)]
    [InlineData(false)]
    public void The_excluded_session_gets_nothing_and_different_exclusions_do_not_mix(bool onLoop) => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 3);
        Session?[] exclusions = [null, pairs[0].Session, pairs[1].Session, null, pairs[0].Session, pairs[0].Session,
            null, pairs[2].Session];
        const int Messages = 400;
        At(rig, pairs[0].Session, onLoop, () =>
        {
            for (int i = 0; i < Messages; i++) server.Broadcast(Bytes($"{i:0000}"), exclusions[i % exclusions.Length]);
        });
        foreach ((RecordingSession session, Peer peer) in pairs)
        {
            string expected = string.Concat(Enumerable.Range(0, Messages).Where(
                i => !ReferenceEquals(exclusions[i % exclusions.Length], session)).Select(static i => $"{i:0000}"));
            Assert.Equal(expected, peer.ReadText(expected.Length));
        }

        rig.Settle();
        Assert.All(pairs, static p => Assert.Equal(-1, p.Peer.TryRead(new byte[1])));
    });

    [Fact, Contract(17)]
    public void Members_of_a_loop_are_enumerated_there_each_once_while_others_leave_and_end() => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 12);
        SessionGroup group = new();
        foreach ((RecordingSession session, _) in pairs) rig.OnLoop(session, () => group.Join(session));
        rig.Until(() => group.Count == pairs.Count, "all to join");
        int seen = 0;
        foreach (Loop loop in rig.Engine.Loops)
        {
            rig.OnLoop(loop, () =>
            {
                HashSet<Session> here = [];
                foreach (Session session in server.Sessions.MembersHere) Assert.True(here.Add(session));
                Assert.Equal(here,
                    pairs.Select(static p => (Session)p.Session).Where(s => ReferenceEquals(s.Loop, loop)).ToHashSet());
                Assert.Equal(here.Count, server.Sessions.MembersHere.Count);
                seen += here.Count;
                if (here.Count < 3) return;
                // The first session visited leaves, removes another one and ends a third.
                Session? gone = null;
                HashSet<Session> again = [];
                foreach (Session session in group.MembersHere)
                {
                    Assert.NotSame(gone, session);
                    Assert.True(again.Add(session));
                    if (gone is not null) continue;
                    gone = here.First(s => !ReferenceEquals(s, session));
                    group.Leave(session);
                    group.Leave(gone);
                    here.Last(s => !ReferenceEquals(s, gone)).Abort();
                    group.Join(session);
                }

                Assert.Equal(here.Count - 1, again.Count);
            });
        }

        Assert.Equal(pairs.Count, seen);
        Assert.Throws<InvalidOperationException>(() => _ = server.Sessions.MembersHere.Count);
        rig.OnLoop(rig.Engine.GetLoop(0), static () => Assert.Equal(0, new SessionGroup().MembersHere.Count));
    });

    [Fact, Contract(17)]
    public void ForEachAsync_calls_for_each_member_on_its_loop_and_ends_after_the_last() => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 8);
        System.Collections.Concurrent.ConcurrentDictionary<Session, int> calls = new();
        int astray = 0;
        rig.Await(server.Sessions.ForEachAsync(s =>
        {
            if (!s.Loop.IsCurrent) Interlocked.Increment(ref astray);
            calls.AddOrUpdate(s, 1, static (_, n) => n + 1);
        }));
        Assert.Equal(0, astray);
        Assert.Equal(pairs.Select(static p => (Session)p.Session).ToHashSet(), calls.Keys.ToHashSet());
        Assert.All(calls.Values, static n => Assert.Equal(1, n));
        int visited = 0;
        InvalidOperationException thrown =
            Assert.Throws<InvalidOperationException>(() => rig.Await(server.Sessions.ForEachAsync(_ =>
            {
                if (Interlocked.Increment(ref visited) == 3) throw new InvalidOperationException("for the awaiter");
            })));
        Assert.Equal("for the awaiter", thrown.Message);
        Assert.Equal(pairs.Count, visited);
        Assert.All(pairs, static p => Assert.True(p.Session.IsConnected));
        rig.Await(new SessionGroup().ForEachAsync(static _ => Assert.Fail("the group is empty")));
    });

    [Fact, Contract(17)]
    public void A_predicate_runs_on_the_loop_of_the_member_and_chooses() => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 6);
        for (int i = 0; i < 6; i++) pairs[i].Session.Tag = i;
        int astray = 0;
        BroadcastResult result = rig.Await(server.Sessions.BroadcastAsync(
            Bytes("even"),
            except: pairs[4].Session,
            predicate: s =>
            {
                if (!s.Loop.IsCurrent) Interlocked.Increment(ref astray);
                return (int)s.Tag! % 2 == 0;
            }));
        Assert.Equal(0, astray);
        Assert.Equal(new BroadcastResult(2, 0), result);
        Assert.Equal("even", pairs[0].Peer.ReadText(4));
        Assert.Equal("even", pairs[2].Peer.ReadText(4));
        rig.Settle();
        foreach (int i in (int[])[1, 3, 4, 5]) Assert.Equal(-1, pairs[i].Peer.TryRead(new byte[1]));
    });

    [Fact, Contract(17)]
    public void A_predicate_that_throws_skips_that_member_and_causes_a_diagnostic_event() => Run(rig =>
    {
        rig.Expect("a broadcast predicate threw");
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 3);
        BroadcastResult result = rig.Await(server.Sessions.BroadcastAsync(
            Bytes("x"),
            predicate: s =>
                ReferenceEquals(s, pairs[1].Session) ? throw new InvalidOperationException("on purpose") : true));
        Assert.Equal(2, result.Queued);
        Assert.Equal("x", pairs[0].Peer.ReadText(1));
        Assert.Equal("x", pairs[2].Peer.ReadText(1));
        Assert.Contains(rig.Notices, static n => n.Kind == DiagnosticEventKind.UserException
            && n.Message.Contains("on purpose", StringComparison.Ordinal));
        Assert.True(pairs[1].Session.IsConnected);
    });

    [Fact, Contract(17)]
    public void BroadcastAsync_counts_the_members_of_all_loops() => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 7);
        Assert.Equal(rig.Engine.LoopCount, pairs.Select(static p => p.Session.Loop.Index).Distinct().Count());
        rig.OnLoop(pairs[3].Session, () => pairs[3].Session.Gate = BroadcastGate.Shut);
        Assert.Equal(new BroadcastResult(6, 1), rig.Await(server.Sessions.BroadcastAsync(Bytes("from elsewhere"))));
        Task<BroadcastResult> fromLoop = StartOnLoop(rig, pairs[0].Session,
            () => server.Sessions.BroadcastAsync(Bytes("from a loop"), pairs[0].Session));
        Assert.Equal(new BroadcastResult(5, 1), Await(rig, fromLoop));
        Assert.Equal("from elsewherefrom a loop", pairs[6].Peer.ReadText(25));
    });

    [Fact, Contract(17)]
    public void OnOccupiedChanged_reports_the_first_join_and_the_last_leave() => Run(
        rig =>
        {
            (_, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 2);
            WatchedGroup group = new();
            foreach ((RecordingSession session, _) in pairs) rig.OnLoop(session, () => group.Join(session));
            foreach ((RecordingSession session, _) in pairs) rig.OnLoop(session, () => group.Leave(session));
            rig.OnLoop(pairs[1].Session, () => group.Join(pairs[1].Session));
            rig.Until(() => group.Changes.Count == 3, "the last join");
            pairs[1].Session.Abort();
            pairs[1].Session.End();
            rig.Until(() => group.Count == 0, "the ended session to leave");
            Assert.Equal([true, false, true, false], group.Changes);
        },
        loops: 1);

    [Fact, Contract(17)]
    public void A_session_leaves_all_its_groups_when_it_ends() => Run(rig =>
    {
        (_, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 2);
        SessionGroup[] groups = [.. Enumerable.Range(0, 5).Select(static i => new SessionGroup($"{i}"))];
        foreach ((RecordingSession session, _) in pairs)
        {
            rig.OnLoop(session, () =>
            {
                foreach (SessionGroup group in groups) group.Join(session);
            });
        }

        rig.Until(() => groups.All(static g => g.Count == 2), "all to have joined");
        rig.OnLoop(pairs[0].Session, () => groups[2].Leave(pairs[0].Session));
        for (int i = 0; i < 5; i++) groups[i].Broadcast([(byte)('0' + i)]);
        Assert.Equal("0134", pairs[0].Peer.ReadText(4));
        Assert.Equal("01234", pairs[1].Peer.ReadText(5));
        pairs[0].Session.Abort();
        pairs[0].Session.End();
        Assert.All(groups, static g => Assert.Equal(1, g.Count));
        Assert.Equal(new BroadcastResult(1, 0), rig.Await(groups[0].BroadcastAsync(Bytes("!"))));
    });

    [Fact, Contract(17)]
    public void A_group_may_have_members_of_several_servers_and_clients() => Run(rig =>
    {
        RecordingServer one = rig.Serve();
        RecordingServer two = rig.Serve();
        PeerListener listener = rig.Listen();
        Peer first = rig.ConnectPeer(one.EndPoint!);
        Peer second = rig.ConnectPeer(two.EndPoint!);
        RecordingSession connected = rig.Connect(listener.EndPoint);
        Peer third = listener.Accept();
        SessionGroup group = new();
        foreach (RecordingSession session in (RecordingSession[])[one.Connected(), two.Connected(), connected])
            group.Join(session);
        Assert.Equal(new BroadcastResult(3, 0), rig.Await(group.BroadcastAsync(Bytes("all"))));
        foreach (Peer peer in (Peer[])[first, second, third]) Assert.Equal("all", peer.ReadText(3));
    });

    [Theory, Contract(17)]
    [InlineData(true)]
    [InlineData(false)]
    public void Joining_twice_leaving_twice_and_ended_sessions_change_nothing(bool onLoop) => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 2);
        SessionGroup group = new();
        RecordingSession session = pairs[0].Session;
        At(rig, session, onLoop, () =>
        {
            group.Leave(session);
            group.Join(session);
            group.Join(session);
            group.Broadcast("once"u8);
            group.Leave(session);
            group.Leave(session);
            group.Broadcast("never"u8);
            Assert.Throws<InvalidOperationException>(() => server.Sessions.Join(session));
            Assert.Throws<InvalidOperationException>(() => server.Sessions.Leave(session));
            Assert.Throws<InvalidOperationException>(() => group.Join(new RecordingSession(rig)));
        });
        Assert.Equal("once", pairs[0].Peer.ReadText(4));
        rig.Settle();
        Assert.Equal(-1, pairs[0].Peer.TryRead(new byte[1]));
        Assert.Equal(0, group.Count);
        session.Abort();
        session.End();
        At(rig, pairs[1].Session, onLoop, () => group.Join(session));
        rig.Settle();
        Assert.Equal(0, group.Count);
    });

    [Fact, Contract(17, 8)]
    public void A_held_gate_keeps_broadcasts_back_and_counts_them_and_an_open_one_lets_them_out() => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 1, Narrow(rig));
        (RecordingSession session, Peer peer) = pairs[0];
        rig.OnLoop(session, () => session.Gate = BroadcastGate.Held);
        rig.OnLoop(session, () =>
        {
            session.Send("1"u8);
            server.Broadcast("33"u8);
            server.Broadcast("444"u8);
            session.Send("2"u8);
        });
        Assert.Equal("12", peer.ReadText(2));
        rig.Settle();
        Assert.Equal(-1, peer.TryRead(new byte[1]));
        Assert.Equal(5, session.BytesPending);
        rig.OnLoop(session, () =>
        {
            session.Send("2"u8);
            session.Gate = BroadcastGate.Open;
            session.Send("5"u8);
            server.Broadcast("6"u8);
        });
        Assert.Equal("23344456", peer.ReadText(8));
        rig.Until(() => session.BytesPending == 0, "nothing to be pending");
    });

    [Fact, Contract(17)]
    public void A_shut_gate_lets_broadcasts_pass_by_also_those_that_were_held() => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 1);
        (RecordingSession session, Peer peer) = pairs[0];
        rig.OnLoop(session, () =>
        {
            session.Gate = BroadcastGate.Held;
            server.Broadcast("held"u8);
            session.Gate = BroadcastGate.Shut;
            // With thread-pool scheduling the loop may have processed the broadcast already, and the gate not yet.
            if (!rig.IsPool) Assert.Equal(0, session.BytesPending);
            server.Broadcast("shut"u8);
            session.Gate = BroadcastGate.Open;
            server.Broadcast("open"u8);
        });
        Assert.Equal("open", peer.ReadText(4));
        rig.Until(() => session.BytesPending == 0, "nothing to be held");
    });

    [Theory, Contract(17, 8)]
    [InlineData(SlowConsumer.Disconnect)]
    [InlineData(SlowConsumer.Wait)]
    public void Held_data_counts_against_the_limit(SlowConsumer policy) => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 1,
            Narrow(rig, policy));
        (RecordingSession session, Peer peer) = pairs[0];
        bool isOpen = true;
        rig.OnLoop(session, () =>
        {
            session.Gate = BroadcastGate.Held;
            server.Broadcast(Filled('a', Limit - 10));
            server.Broadcast(Filled('b', 10));
            // With thread-pool scheduling a broadcast counts when the loop has processed it (contract 8).
            if (!rig.IsPool) Assert.Equal(Limit, session.BytesPending);
        });
        rig.Settle();
        rig.OnLoop(session, () => server.Broadcast("c"u8));
        rig.Settle();
        rig.OnLoop(session, () =>
        {
            isOpen = session.IsConnected;
            if (isOpen) session.Gate = BroadcastGate.Open;
        });
        Assert.Equal(policy == SlowConsumer.Wait, isOpen);
        if (!isOpen) Assert.Equal(CloseCause.SlowConsumer, session.End());
        else
        {
            Assert.Equal([.. Filled('a', Limit - 10), .. Filled('b', 10)], peer.Read(Limit));
            rig.Settle();
            Assert.Equal(-1, peer.TryRead(new byte[1]));
        }
    });

    [Fact, Contract(17, 6)]
    public void A_gate_that_opens_during_a_message_in_pieces_sends_the_broadcasts_after_it() => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 1, Narrow(rig));
        (RecordingSession session, Peer peer) = pairs[0];
        byte[] big = Pattern(6 * Limit);
        rig.OnLoop(session, () =>
        {
            session.Gate = BroadcastGate.Held;
            server.Broadcast("held"u8);
        });
        Task<SendResult> task = StartOnLoop(rig, session, () => session.SendAsync(big));
        byte[] start = peer.Read(Limit);
        rig.OnLoop(session, () => session.Gate = BroadcastGate.Open);
        byte[] rest = peer.Read(big.Length - start.Length);
        Assert.True(big.AsSpan().SequenceEqual((byte[])[.. start, .. rest]));
        Assert.Equal("held", peer.ReadText(4));
        Assert.Equal(SendResult.Queued, Await(rig, task));
    });

    [Fact, Contract(17)]
    public void Small_broadcasts_of_another_thread_that_are_joined_arrive_byte_for_byte() => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 4);
        byte[] all = Pattern(300_000, 11);
        int at = 0;
        int number = 0;
        Repeat(rig, () =>
        {
            for (int i = 0; i < 60 && at < all.Length; i++)
            {
                // Lengths near every limit of joining broadcasts.
                int length = Math.Min(all.Length - at,
                    (number % 7) switch { 0 => 1, 1 => 1023, 2 => 1024, 3 => 7, 4 => 333, 5 => 5000, _ => 64 });
                if (server.Broadcast(all.AsSpan(at, length)) == SendResult.Full) return false;
                at += length;
                number++;
            }

            return at == all.Length;
        });
        foreach ((_, Peer peer) in pairs) Assert.True(peer.Read(all.Length).AsSpan().SequenceEqual(all));
        rig.Join();
    }, loops: 1);

    [Fact, Contract(17)]
    public void A_broadcast_is_accepted_by_all_loops_or_by_none() => Run(rig =>
    {
        const int Message = 16 * 1024;
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 8);
        Loop full = pairs[0].Session.Loop;
        SessionGroup some = new();
        List<(RecordingSession Session, Peer Peer)> inSome = [.. pairs.Where(p => p.Session.Loop == full)];
        foreach ((RecordingSession session, _) in inSome) some.Join(session);
        rig.Until(() => some.Count == inSome.Count, "the members of one loop");
        int filled = 0;
        using ManualResetEventSlim goOn = new();
        // Real loops are blocked meanwhile, virtual ones are not run.
        int standing = 0;
        for (int i = 0; i < rig.Engine.LoopCount && !rig.IsVirtual; i++)
        {
            rig.Engine.GetLoop(i).Post(() =>
            {
                Interlocked.Increment(ref standing);
                goOn.Wait();
            });
        }

        if (!rig.IsVirtual)
            rig.Until(() => Volatile.Read(ref standing) == rig.Engine.LoopCount, "the loops to stand still");
        long refused = rig.Engine.ReadCounters().BroadcastsRefused;
        Task<BroadcastResult>? timed = null;
        rig.Elsewhere(() =>
        {
            while (some.Broadcast(new byte[Message]) == SendResult.Queued) filled++;
            Assert.Equal(SendResult.Full, server.Broadcast(new byte[Message]));
            Assert.Equal(SendResult.Full, server.Broadcast(new byte[Message], static _ => true));
            Assert.Equal(new BroadcastResult(0, 0, SendResult.Full),
                server.Sessions.BroadcastAsync(new byte[Message], TimeSpan.Zero).Result);
            if (!rig.IsVirtual)
                timed = server.Sessions.BroadcastAsync(new string('x', Message), TimeSpan.FromMilliseconds(20))
                    .AsTask();
        });
        rig.Join();
        if (timed is not null)
        {
            rig.Until(() => timed.IsCompleted, "the time to pass, though the loops stand");
            Assert.Equal(SendResult.Full, timed.Result.Result);
        }

        goOn.Set();
        Assert.Equal(timed is null ? 4 : 5, rig.Engine.ReadCounters().BroadcastsRefused - refused);
        Assert.Equal(new BroadcastResult(8, 0),
            rig.Await(server.Sessions.BroadcastAsync("end", TimeSpan.FromSeconds(20))));
        foreach ((RecordingSession session, Peer peer) in pairs)
        {
            if (session.Loop == full) Assert.Equal(new byte[filled * Message], peer.Read(filled * Message));
            Assert.Equal("end", peer.ReadText(3));
        }

        rig.Settle();
        Assert.All(pairs, static p => Assert.Equal(-1, p.Peer.TryRead(new byte[1])));
    });

    [Fact, Contract(17)]
    public void A_producer_that_resends_refused_messages_reaches_every_member_once() => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 8);
        byte[] all = Pattern(600_000, 13);
        int at = 0;
        int refused = 0;
        using ManualResetEventSlim goOn = new();
        if (!rig.IsVirtual) rig.Engine.GetLoop(1).Post(goOn.Wait);
        Repeat(rig, () =>
        {
            for (int i = 0; i < 60 && at < all.Length; i++)
            {
                int length = Math.Min(all.Length - at, 1000 + (i * 17));
                if (server.Broadcast(all.AsSpan(at, length)) == SendResult.Full)
                {
                    if (++refused == 3) goOn.Set();
                    return false;
                }

                at += length;
            }

            return at == all.Length;
        });
        foreach ((_, Peer peer) in pairs) Assert.True(peer.Read(all.Length).AsSpan().SequenceEqual(all));
        rig.Join();
        if (!rig.IsVirtual) Assert.True(refused >= 3);
        Assert.Equal(0, server.ReadCounters().BroadcastsDropped);
        rig.Settle();
        Assert.All(pairs, static p => Assert.Equal(-1, p.Peer.TryRead(new byte[1])));
    });

    [Theory, Contract(17)]
    [InlineData(64 * 1024, true)]
    [InlineData((64 * 1024) + 1, true)]
    [InlineData((64 * 1024) + 1, false)]
    [InlineData((3 * 1024 * 1024) + 17, true)]
    [InlineData((3 * 1024 * 1024) + 17, false)]
    public void A_large_broadcast_arrives_whole(int length, bool onLoop) => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(
            rig, 3,
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Limits = new() { SendBytes = 8 * 1024 * 1024 }
            });
        byte[] data = Pattern(length);
        At(rig, pairs[0].Session, onLoop, () => Assert.Equal(SendResult.Queued, server.Broadcast(data)));
        foreach ((_, Peer peer) in pairs) Assert.True(peer.Read(length).AsSpan().SequenceEqual(data));
    });

    [Fact, Contract(17)]
    public void An_empty_broadcast_and_an_empty_group_do_nothing() => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 1);
        Assert.Equal(SendResult.Queued, server.Broadcast(default));
        Assert.Equal(default, rig.Await(server.Sessions.BroadcastAsync(default)));
        SessionGroup empty = new();
        Assert.Equal(SendResult.Queued, empty.Broadcast("x"u8));
        Assert.Equal(default, rig.Await(empty.BroadcastAsync(Bytes("x"))));
        rig.Await(empty.WaitForRoomAsync());
        Assert.True(empty.WaitForRoom(TimeSpan.Zero));
        rig.Settle();
        Assert.Equal(-1, pairs[0].Peer.TryRead(new byte[1]));
    });

    [Theory, Contract(17)]
    [InlineData(false)]
    [InlineData(true)]
    public void A_waiter_for_space_does_not_hang_on_a_dead_member(bool blocking) => Run(rig =>
    {
        Assert.SkipWhen(blocking && rig.IsVirtual,
            "The memory engine runs everything on one thread, so no callback can block.");
        // Three waits up to the limit: each takes the tenth of a second without progress.
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 1,
            Narrow(rig, SlowConsumer.Disconnect, limit: 256 * 1024));
        RecordingSession dead = pairs[0].Session;
        Clog(rig, dead);
        byte[] message = new byte[10_000];
        Task<int> producer = StartElsewhere(rig, Produce);
        Assert.InRange(Await(rig, producer), 1, 199);
        Assert.Equal(CloseCause.SlowConsumer, dead.End());

        async ValueTask<int> Produce()
        {
            int sent = 0;
            while (dead.IsConnected && sent < 200)
            {
                for (int i = 0; i < 10; i++) server.Broadcast(message);
                sent += 10;
                if (blocking) Assert.True(server.Sessions.WaitForRoom(TimeSpan.FromSeconds(20)));
                else await server.Sessions.WaitForRoomAsync().ConfigureAwait(false);
            }

            return sent;
        }
    });

    [Fact, Contract(14, 17)]
    public void A_thread_may_block_for_space_up_to_its_timeout() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsVirtual, "The memory engine runs everything on one thread, so no callback can block.");
        RecordingServer server = rig.Serve();
        rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        rig.OnLoop(session.Loop,
            () => Assert.Throws<InvalidOperationException>(() => server.Sessions.WaitForRoom(TimeSpan.FromSeconds(1))));
        Assert.Throws<ArgumentOutOfRangeException>(() => server.Sessions.WaitForRoom(TimeSpan.FromMilliseconds(-2)));
        Assert.True(server.Sessions.WaitForRoom(TimeSpan.Zero));
        using ManualResetEventSlim go = new();
        bool isBlocked = false;
        session.Loop.Post(() =>
        {
            Volatile.Write(ref isBlocked, true);
            go.Wait(TimeSpan.FromSeconds(20));
        });
        rig.Until(() => Volatile.Read(ref isBlocked), "the loop to block");
        byte[] message = new byte[10_000];
        while (server.Broadcast(message) == SendResult.Queued)
        {
        }

        Assert.False(server.Sessions.WaitForRoom(TimeSpan.FromMilliseconds(20)));
        go.Set();
        Assert.True(server.Sessions.WaitForRoom(TimeSpan.FromSeconds(20)));
    });

    [Fact, Contract(17, 2)]
    public void A_broadcast_inside_a_callback_also_reaches_its_sender_and_never_nests() => Run(rig =>
    {
        RecordingServer? server = null;
        server = rig.Serve(s => s.AtReceived = (_, data) => server!.Broadcast(data));
        Peer[] peers = [.. Enumerable.Range(0, 5).Select(_ => rig.ConnectPeer(server.EndPoint!))];
        rig.Until(() => server.Sessions.Count == 5, "five members");
        foreach (Peer peer in peers) peer.Write("abc");
        foreach (Peer peer in peers)
        {
            string text = peer.ReadText(15);
            Assert.Equal(5, text.Count(static c => c == 'b'));
        }
    });

    private sealed class WatchedGroup : SessionGroup
    {
        internal List<bool> Changes { get; } = [];

        protected override void OnOccupiedChanged(bool isOccupied) => Changes.Add(isOccupied);
    }
}
