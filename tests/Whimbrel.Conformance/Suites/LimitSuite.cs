using System.Buffers;

namespace Whimbrel.Conformance;

/// <summary>Contract 8: the send queue has a limit, a policy, and an exact counter.</summary>
public abstract class LimitSuite(Transport transport) : TrafficSuite(transport)
{
    [Theory, Contract(8)]
    [InlineData(SlowConsumer.Disconnect, true)]
    [InlineData(SlowConsumer.Disconnect, false)]
    [InlineData(SlowConsumer.DropNewest, true)]
    [InlineData(SlowConsumer.DropNewest, false)]
    [InlineData(SlowConsumer.Wait, true)]
    [InlineData(SlowConsumer.Wait, false)]
    public void The_last_byte_up_to_the_limit_is_accepted_and_the_first_above_it_is_not(SlowConsumer policy,
        bool onLoop) => Run(rig =>
        {
            (RecordingSession session, _) = Pair(rig, policy);
            Clog(rig, session);
            FillTo(rig, session, room: 100);
            List<SendResult> results = [];
            List<long> pending = [];
            At(rig, session, onLoop, () =>
            {
                Report(session.Send(Filled('a', 99)));
                Report(session.Send(Filled('b', 1)));
                // A peer is not considered slow until the kernel was offered the queued data, and TCP may have space by
                // then: so up to the limit once more.
                do Report(session.Send(Filled('c', 1)));
                while (policy == SlowConsumer.Disconnect && results[^1] == SendResult.Queued);
            });
            Assert.Equal([SendResult.Queued, SendResult.Queued], results.Take(2));
            Assert.Equal([Limit - 1, Limit], pending.Take(2));
            if (policy == SlowConsumer.Disconnect)
            {
                Assert.Equal(SendResult.Closed, results[^1]);
                Assert.All(pending.SkipLast(1), static bytes => Assert.InRange(bytes, 1, Limit));
                Assert.Equal(CloseCause.SlowConsumer, session.End());
                Assert.Equal(0, session.BytesPending);
                return;
            }

            Assert.Equal(SendResult.Full, results[2]);
            rig.Settle();
            Assert.Equal(Limit, session.BytesPending);
            Assert.True(session.IsConnected);

            void Report(SendResult result)
            {
                results.Add(result);
                pending.Add(session.BytesPending);
            }
        });

    [Theory, Contract(5, 8)]
    [InlineData(SlowConsumer.DropNewest, true)]
    [InlineData(SlowConsumer.DropNewest, false)]
    [InlineData(SlowConsumer.Wait, true)]
    [InlineData(SlowConsumer.Wait, false)]
    public void A_message_that_does_not_fit_queues_nothing_and_a_smaller_one_is_still_accepted(SlowConsumer policy,
        bool onLoop) => Run(rig =>
        {
            (RecordingSession session, Peer peer) = Pair(rig, policy);
            byte[] first = Clog(rig, session);
            byte[] fill = FillTo(rig, session, room: 10);
            List<SendResult> results = [];
            At(rig, session, onLoop, () =>
            {
                results.Add(session.Send(Filled('x', 11)));
                results.Add(session.Send(Outgoing.Pieces(Filled('x', 5), Filled('x', 6))));
                results.Add(session.Send(Outgoing.Owned(new Plain(Filled('x', 11)), 11)));
                results.Add(session.Send(new string('x', 11)));
                results.Add(session.Send("ok"u8));
            });
            Assert.Equal([SendResult.Full, SendResult.Full, SendResult.Full, SendResult.Full, SendResult.Queued],
                results);
            Assert.Equal([.. first, .. fill, .. Bytes("ok")], peer.Read(first.Length + fill.Length + 2));
            rig.Settle();
            Assert.Equal(-1, peer.TryRead(new byte[1]));
            Assert.Equal(0, session.BytesPending);
        });

    [Theory, Contract(5, 8)]
    [InlineData(SlowConsumer.Disconnect, true)]
    [InlineData(SlowConsumer.Disconnect, false)]
    [InlineData(SlowConsumer.DropNewest, true)]
    [InlineData(SlowConsumer.DropNewest, false)]
    [InlineData(SlowConsumer.Wait, true)]
    [InlineData(SlowConsumer.Wait, false)]
    public void A_message_above_the_whole_limit_is_the_callers_mistake_and_ends_nothing(SlowConsumer policy,
        bool onLoop) => Run(rig =>
        {
            (RecordingSession session, Peer peer) = Pair(rig, policy);
            byte[] above = new byte[Limit + 1];
            List<string> thrown = [];
            Plain owned = new(above);
            MessageWriter writer = new();
            writer.Write(above);
            At(rig, session, onLoop, () =>
            {
                Try(() => session.Send(above));
                Try(() => session.Send(Outgoing.Pieces(above.AsSpan(0, 10), above.AsSpan(10))));
                Try(() => session.Send(Outgoing.Owned(owned, above.Length)));
                Try(() => session.Send(Outgoing.Written(writer)));
                Try(() => session.Send(Outgoing.Pieces([above.AsMemory(0, 10), above.AsMemory(10)])));
                Try(() => Session.SendToEach(above, [session]));
                Assert.Equal(SendResult.Queued, session.Send(new byte[Limit]));
            });
            Assert.Equal(6, thrown.Count);
            Assert.All(thrown, static text => Assert.Equal("A message of 65,537 bytes is larger than the send "
                + "queue of its connection may ever be (SendLimitBytes is 65,536). Nothing of it was queued, and "
                + "the connection continues. Await SendAsync, which sends a message of any length in parts; or set "
                + "Limits.AllowLargeMessages, which takes one when nothing else is pending; or raise "
                + "Limits.SendBytes.", text));
            Assert.Equal(above.Length, writer.Length);
            Assert.Equal(new byte[Limit], peer.Read(Limit));
            // Sent in parts it is possible.
            Task<SendResult> waiting = Start(rig, session, onLoop, () => session.SendAsync(above));
            Assert.Equal(above, peer.Read(above.Length));
            Assert.Equal(SendResult.Queued, Await(rig, waiting));
            Assert.DoesNotContain(rig.Notices, static n => n.Kind == DiagnosticEventKind.SlowConsumer);
            session.Abort();
            session.End();
            Assert.Equal(SendResult.Closed, session.Send(above));

            void Try(Action send)
            {
                try
                {
                    send();
                }
                catch (ArgumentException e)
                {
                    thrown.Add(e.Message);
                }
            }
        });

    [Theory, Contract(8, 17)]
    [InlineData(SlowConsumer.Disconnect, true)]
    [InlineData(SlowConsumer.Disconnect, false)]
    [InlineData(SlowConsumer.DropNewest, true)]
    [InlineData(SlowConsumer.Wait, false)]
    public void A_broadcast_above_a_members_whole_limit_skips_it_with_a_diagnostic_event_and_ends_nothing(
        SlowConsumer policy, bool onLoop) => Run(rig =>
        {
            (RecordingSession session, Peer peer) = Pair(rig, policy);
            SessionGroup group = new("news");
            rig.OnLoop(session.Loop, () => group.Join(session));
            byte[] above = new byte[Limit + 1];
            At(rig, session.Loop, onLoop, () =>
            {
                group.Broadcast("before"u8);
                group.Broadcast(above);
                group.Broadcast("behind"u8);
            });
            Assert.Equal("beforebehind", peer.ReadText(12));
            BroadcastResult result = rig.Await(group.BroadcastAsync(above));
            Assert.Equal((0, 1), (result.Queued, result.Skipped));
            Assert.True(session.IsConnected);
            DiagnosticEvent notice = Assert.Single(rig.Notices,
                static n => n.Kind == DiagnosticEventKind.MessageTooLarge);
            Assert.Contains($"A broadcast of 65,537 bytes is larger than the send queue of session {session.Id:x} may "
                + $"ever be (SendLimitBytes is 65,536)", notice.Message, StringComparison.Ordinal);
            Assert.Equal("message-too-large.md", notice.Page);
            Assert.DoesNotContain(rig.Notices, static n => n.Kind == DiagnosticEventKind.SlowConsumer);
        });

    [Theory, Contract(8)]
    [InlineData(true)]
    [InlineData(false)]
    public void A_slow_consumer_is_reported_once_with_the_session_its_pending_bytes_and_the_limit(bool onLoop) =>
        Run(rig =>
        {
            const int OneMiB = 1024 * 1024;
            (RecordingSession session, _) = Pair(rig, SlowConsumer.Disconnect, limit: OneMiB);
            Clog(rig, session);
            long id = session.Id;
            SendResult above = default;
            // TCP may accept more long after it accepted the last byte: then there was space, and nothing to observe.
            for (int i = 0; above != SendResult.Closed; i++)
            {
                Assert.True(i < 100, "the system takes more and more");
                FillTo(rig, session, room: 0, OneMiB);
                At(rig, session, onLoop, () => above = session.Send("x"u8));
            }

            At(rig, session, onLoop, () => Assert.Equal(SendResult.Closed, session.Send("x"u8)));
            Assert.Equal(CloseCause.SlowConsumer, session.End());
            DiagnosticEvent notice = Assert.Single(rig.Notices, static n => n.Kind == DiagnosticEventKind.SlowConsumer);
            Assert.Equal($"Session {id:x} reached SendLimitBytes (1 MiB; 1.0 MiB are pending now): disconnected "
                + $"by SlowConsumer=Disconnect. Await SendAsync, which waits for room; a session that answers "
                + $"many requests in one callback leaves the rest unread while IsAboveHighWaterMark is true.",
                notice.Message);
            Assert.Equal("slow-consumer.md", notice.Page);
        });

    // Whether data accepted by the kernel is sent before the reset is unknown. Data that it has not accepted is
    // counted.
    [Theory, Contract(8, 12)]
    [InlineData("stop")]
    [InlineData("drain")]
    [InlineData("abort")]
    public void A_session_that_ends_with_unsent_bytes_gets_their_number_and_no_graceful_end(string how) => Run(rig =>
    {
        TimeSpan brief = TimeSpan.FromMilliseconds(100);
        RecordingServer server = rig.Serve(null, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            Limits = new() { SendBytes = Limit, SlowConsumer = SlowConsumer.Wait },
            Socket = new() { SendBufferBytes = 8192 },
            Timeouts = new() { Drain = how == "drain" ? brief : TimeSpan.FromMinutes(1) },
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        long accepted = Clog(rig, session).Length;
        accepted += FillTo(rig, session, room: 0).Length;
        if (how == "stop") rig.Await(server.StopAsync(brief));
        else if (how == "drain") session.Close();
        else rig.OnLoop(session, session.Abort);
        CloseCause cause = session.End();
        CloseReason reason = session.Reason;
        Assert.Equal(how switch
        {
            "stop" => CloseCause.ServerStopped,
            "drain" => CloseCause.LocalClose,
            _ => CloseCause.LocalAbort
        }, cause);
        Assert.Equal((accepted - session.BytesSent, true, false),
            (reason.BytesLost, reason.WasReset, reason.IsGraceful));
        Assert.InRange(reason.BytesLost, 1, Limit);
        Assert.EndsWith($"{reason.BytesLost:n0} accepted bytes were not sent", reason.ToString(),
            StringComparison.Ordinal);
        peer.Close();
    });

    [Fact, Contract(12)]
    public void A_session_that_a_stop_resets_in_the_middle_has_no_graceful_end_and_one_that_closes_has() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        rig.ConnectPeer(server.EndPoint!);
        RecordingSession stays = server.Connected();
        stays.AtServerStopping = static _ => { };
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession closes = server.Connected(1);
        closes.AtServerStopping = static x => x.Close();
        peer.ShutdownSend();
        Assert.Equal(CloseCause.PeerClosed, closes.End());
        rig.Await(server.StopAsync(TimeSpan.FromMilliseconds(50)));
        Assert.Equal(CloseCause.ServerStopped, stays.End());
        Assert.Equal((0L, true, false), (stays.Reason.BytesLost, stays.Reason.WasReset, stays.Reason.IsGraceful));
        Assert.Equal((0L, false, true), (closes.Reason.BytesLost, closes.Reason.WasReset, closes.Reason.IsGraceful));
        Assert.Equal("the server stopped, and reset before the end", stays.Reason.ToString());
    });

    [Fact, Contract(8)]
    public void BytesPending_is_exact_for_one_thread_from_the_moment_each_send_returns() => Run(rig =>
    {
        const int Large = 8 * 1024 * 1024;
        (RecordingSession session, _) = Pair(rig, limit: Large);
        Clog(rig, session);
        long expected = Accepted(session);
        int sent = 0;
        byte[] message = new byte[113];
        Repeat(rig, () =>
        {
            for (int i = 0; i < 100; i++)
            {
                SendResult result = session.Send(message);
                if (result == SendResult.Full) return false; // the mailbox is full, and the loop will process it
                Assert.Equal(SendResult.Queued, result);
                expected += message.Length;
                // Several reads, because the loop is moving the bytes at the moment.
                for (int look = 0; look < 5; look++) Assert.Equal(expected, Accepted(session));
                if (++sent == 30_000) return true;
            }

            return false;
        });
        rig.Join();
        rig.Settle();
        Assert.Equal(expected, Accepted(session));
    });

    // The system may take more of the queue meanwhile: the window of a peer that does not read can still grow.
    private static long Accepted(RecordingSession session)
    {
        while (true)
        {
            long sent = session.BytesSent;
            long pending = session.BytesPending;
            if (sent == session.BytesSent) return sent + pending;
        }
    }

    [Theory, Contract(8)]
    [InlineData(500, 8 * 1024, 1)]
    [InlineData(100, 50 * 1024, 5)]
    public void Sends_of_another_thread_to_many_idle_sessions_are_all_accepted(int sessions, int bytes, int bursts) =>
        Run(rig =>
        {
            if (rig.IsVirtual) sessions = Math.Min(sessions, 300); // seeds repeat the test
            RecordingServer server = rig.Serve();
            List<(RecordingSession Session, Peer Peer)> pairs = [];
            for (int i = 0; i < sessions; i++)
            {
                Peer peer = rig.ConnectPeer(server.EndPoint!);
                pairs.Add((server.Connected(i), peer));
            }

            byte[] message = Pattern(bytes);
            for (int burst = 0; burst < bursts; burst++)
            {
                int taken = 0;
                using ManualResetEventSlim goOn = new();
                // No loop processes anything before all is sent. In virtual time other threads complete in one step
                // anyway.
                for (int i = 0; i < rig.Engine.LoopCount && !rig.IsVirtual; i++) rig.Engine.GetLoop(i).Post(goOn.Wait);
                rig.Elsewhere(() =>
                {
                    foreach ((RecordingSession session, _) in pairs)
                    {
                        if (session.Send(message) == SendResult.Queued && session.BytesPending == bytes) taken++;
                    }

                    goOn.Set();
                });
                rig.Join();
                Assert.Equal(sessions, taken);
                foreach ((_, Peer peer) in pairs) Assert.True(peer.Read(bytes).AsSpan().SequenceEqual(message));
                foreach ((RecordingSession session, _) in pairs)
                    rig.Until(() => session.BytesPending == 0, "all to be sent");
            }

            Assert.Equal(0, rig.Engine.ReadCounters().SendsRefused);
        });

    [Fact, Contract(8)]
    public void BytesPending_counts_every_kind_of_send_and_is_zero_when_the_peer_has_read_all() => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig);
        SessionGroup group = new();
        rig.OnLoop(session, () => group.Join(session));
        byte[] first = Clog(rig, session);
        long start = session.BytesPending;
        foreach (bool onLoop in (bool[])[true, false])
        {
            At(rig, session, onLoop, () =>
            {
                Step(() => session.Send(new byte[10]), 10);
                Step(() => session.Send(Outgoing.Pieces(new byte[10], new byte[5])), 15);
                Step(() => session.Send(Outgoing.Owned(new Plain(new byte[3000]), 3000)), 3000);
                Step(() => session.Send("five5"), 5);
                Step(() => session.SendAsync(new byte[7]).AsTask().GetAwaiter().GetResult(), 7);
                // With thread-pool scheduling a broadcast counts when the loop has processed it.
                if (onLoop && !rig.IsPool) Step(() => group.Broadcast(new byte[100]), 100);
                else if (onLoop) group.Broadcast(new byte[100]);
            });
            if (!onLoop || !rig.IsPool) continue;
            start += 100;
            rig.Until(() => session.BytesPending == start, "the broadcast to count");
        }

        void Step(Func<SendResult> send, int bytes)
        {
            Assert.Equal(SendResult.Queued, send());
            start += bytes;
            Assert.Equal(start, session.BytesPending);
        }

        peer.Read(first.Length + (2 * 3037) + 100);
        rig.Until(() => session.BytesPending == 0, "the queue to be empty");
        rig.Settle();
        Assert.Equal(-1, peer.TryRead(new byte[1]));
    });

    [Theory, Contract(8)]
    [InlineData(true)]
    [InlineData(false)]
    public void Reserve_and_commit_obey_the_limit(bool inPieces) => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig);
        byte[] first = Clog(rig, session);
        byte[] fill = FillTo(rig, session, room: 20);
        rig.OnLoop(session, () =>
        {
            Assert.Equal(0, session.CallReserve(21).Length);
            Span<byte> room = session.CallReserve(20);
            Assert.Equal(20, room.Length);
            room.Fill((byte)'r');
            session.CallCommit(inPieces ? 19 : 20);
            Assert.Equal(inPieces ? Limit - 1 : Limit, session.BytesPending);
            Assert.Equal(inPieces ? 1 : 0, session.CallReserve(1).Length);
            if (inPieces) session.CallCommit(0);
        });
        Assert.Equal([.. first, .. fill, .. Filled('r', inPieces ? 19 : 20)],
            peer.Read(first.Length + fill.Length + (inPieces ? 19 : 20)));
    });

    [Fact, Contract(8)]
    public void After_the_end_nothing_is_pending_and_every_send_gives_Closed() => Run(rig =>
    {
        (RecordingSession session, _) = Pair(rig);
        Clog(rig, session);
        FillTo(rig, session, room: 1000);
        session.Send(Filled('f', 500));
        session.Abort();
        session.End();
        Assert.Equal(0, session.BytesPending);
        foreach (bool onLoop in (bool[])[true, false])
        {
            At(rig, session, onLoop, () =>
            {
                Assert.Equal(SendResult.Closed, session.Send("x"u8));
                Assert.Equal(SendResult.Closed, session.Send(Outgoing.Pieces("x"u8, "y"u8)));
                Assert.Equal(SendResult.Closed, session.Send("x"));
                Assert.Equal(SendResult.Closed, session.Send(Outgoing.Owned(new Plain([1]), 1)));
                Assert.Equal(SendResult.Closed, session.SendAsync(Bytes("x")).AsTask().GetAwaiter().GetResult());
            });
        }
    });

    [Theory, Contract(8, 17)]
    [InlineData(SlowConsumer.Disconnect)]
    [InlineData(SlowConsumer.DropNewest)]
    [InlineData(SlowConsumer.Wait)]
    public void A_broadcast_to_a_slow_member_follows_its_policy_and_reaches_the_others(SlowConsumer policy) =>
        Run(rig =>
        {
            RecordingServer server = rig.Serve(null, Narrow(rig, policy));
            Peer slowPeer = rig.ConnectPeer(server.EndPoint!);
            RecordingSession slow = server.Connected();
            Peer otherPeer = rig.ConnectPeer(server.EndPoint!);
            server.Connected(1);
            Clog(rig, slow);
            BroadcastResult first;
            BroadcastResult second;
            int skipped = 0;
            long sent;
            do
            {
                FillTo(rig, slow, room: 10);
                sent = slow.BytesSent;
                first = rig.Await(server.Sessions.BroadcastAsync(Filled('a', 10)));
                second = rig.Await(server.Sessions.BroadcastAsync(Filled('b', 10)));
                skipped += first.Skipped + second.Skipped;
                Assert.Equal("aaaaaaaaaabbbbbbbbbb", otherPeer.ReadText(20));
                rig.Settle();
            }
            // A busy kernel accepted more after all: then there was space, and nothing to observe.
            while (slow.IsConnected && slow.BytesSent != sent);

            Assert.Equal(new BroadcastResult(2, 0), first);
            Assert.Equal(new BroadcastResult(1, 1), second);
            if (policy == SlowConsumer.Disconnect) Assert.Equal(CloseCause.SlowConsumer, slow.End());
            else
            {
                Assert.True(slow.IsConnected);
                Assert.Equal(Limit, slow.BytesPending);
            }

            Assert.Equal(skipped, server.ReadCounters().BroadcastsDropped);
            slowPeer.Close();
        });

    [Theory, Contract(8)]
    [InlineData("loop")]
    [InlineData("threads")]
    [InlineData("broadcasts")]
    [InlineData("owned")]
    public void A_flood_holds_no_more_memory_than_the_limit_allows(string kind) => Run(rig =>
    {
        const int OneMiB = 1024 * 1024;
        (RecordingSession session, _) = Pair(rig, SlowConsumer.DropNewest, limit: OneMiB);
        Clog(rig, session);
        SessionGroup group = new();
        rig.OnLoop(session, () => group.Join(session));
        byte[] message = new byte[1100];
        int full = 0;
        int most = 0;
        for (int round = 0; round < 30; round++)
        {
            if (kind == "threads")
            {
                for (int t = 0; t < 2; t++) rig.Elsewhere(Flood);
                rig.Join();
            }
            else rig.OnLoop(session, Flood);

            rig.OnLoop(session, () => most = Math.Max(most, session.Loop.Blocks.Outstanding));
        }

        Assert.True(full > 0, "the flood never met the limit");
        Assert.True(session.BytesPending <= OneMiB + 32 * 1024, $"{session.BytesPending} bytes pending");
        // The first 64 KiB of a queue may be references to broadcasts, each between two blocks.
        int references = kind == "broadcasts" ? 2 * (64 * 1024 / message.Length) : 0;
        Assert.True(most <= (2 * OneMiB / (32 * 1024)) + 8 + references,
            $"{most} blocks of 32 KiB for a queue of 1 MiB");

        void Flood()
        {
            for (int i = 0; i < 200; i++)
            {
                SendResult result = kind switch
                {
                    "broadcasts" => i % 2 == 0 ? session.Send("x"u8) : group.Broadcast(message),
                    "owned" => i % 2 == 0
                        ? session.Send("x"u8)
                        : session.Send(Outgoing.Owned(new Plain(message), message.Length)),
                    _ => session.Send(message),
                };
                if (result == SendResult.Full) Interlocked.Increment(ref full);
            }
        }
    });

    private sealed class Plain(byte[] bytes) : IMemoryOwner<byte>
    {
        public Memory<byte> Memory => bytes;

        public void Dispose()
        {
        }
    }
}
