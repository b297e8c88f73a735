using System.Net;
using System.Runtime.InteropServices;

namespace Whimbrel.Conformance;

/// <summary>Contract 3: unconsumed data stays with the connection and is passed again, followed by new data.</summary>
public abstract class ReceivingSuite(Transport transport) : Suite(transport)
{
    /// <summary>Waits until the session's connection has received this many bytes, consumed or not.</summary>
    private static void UntilArrived(Rig rig, RecordingSession session, int count) =>
        rig.Until(() => session.BytesReceived >= count, $"{count} bytes to arrive");

    private static ServerOptions WithUnreadLimit(Rig rig, int limit) =>
        new() { Engine = rig.Engine, EndPoint = rig.NewAddress(), Limits = new() { UnreadBytes = limit } };

    [Fact, Contract(3)]
    public void Unconsumed_bytes_are_passed_again_followed_by_new_ones() => Run(rig =>
    {
        RecordingServer server = rig.Serve(s => s.AtData = static (_, unread) => unread.Length < 6 ? 0 : unread.Length);
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        peer.Write("abc");
        UntilArrived(rig, session, 3);
        Assert.Equal(0, session.ReceivedCount);
        peer.Write("def");
        session.UntilReceived(6);
        Assert.Equal("abcdef", session.ReceivedText);
        // In one or several pieces, but never fewer bytes than before.
        Assert.Equal(session.Offers.Order().Distinct(), session.Offers);
        Assert.Equal(6, session.Offers[^1]);
        // With thread-pool scheduling both may have arrived before the first callback ran.
        if (!rig.IsPool) Assert.Contains(3, session.Offers);
    });

    // Received into one array, another one, one that is too short, or the engine's; in pieces of all sizes, partly left
    // unconsumed, with pauses.
    [Theory, Contract(3, 13)]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    public void Large_amounts_may_be_received_into_the_sessions_memory_and_are_unchanged(int seed) => Run(rig =>
    {
        // The simulation has one thread: the peer reads after it has written everything, which must fit into the
        // buffers.
        int total = rig.IsVirtual ? 384 * 1024 : 8 * 1024 * 1024;
        byte[] all = Pattern(total, seed);
        Random choices = new(seed);
        int taken = 0, keptAt = 0, keptCount = 0;
        byte[]? kept = null;
        RecordingServer server = rig.Serve(s => s.AtData = (x, unread) =>
        {
            bool isAll = taken + unread.Length == total;
            int count = isAll || choices.Next(8) > 0 ? unread.Length : choices.Next(1, unread.Length + 1);
            if (!unread[..count].SequenceEqual(all.AsSpan(taken, count)))
                throw new InvalidOperationException($"wrong bytes at {taken}");
            if (kept is null && x.Own is { } own && unread.Overlaps(own))
            {
                (kept, keptAt, keptCount) = (own, taken, unread.Length);
                x.Own = new byte[64 * 1024];
            }
            else if (choices.Next(10) == 0)
            {
                x.Own = choices.Next(4) switch
                {
                    0 => new byte[64 * 1024],
                    1 => new byte[40_000],
                    2 => new byte[100],
                    _ => null
                };
            }

            // Counted first, because the response may arrive before this call has returned.
            taken += count;
            x.Send(unread[..count]);
            if (taken < total && choices.Next(10) == 0)
            {
                x.PauseReceiving();
                x.Post(static session => ((RecordingSession)session!).ResumeReceiving(), x);
            }

            return count;
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        rig.OnLoop(session, () => session.Own = new byte[64 * 1024]);
        Assert.Equal(all, ThereAndBack(rig, peer, all, seed + 100));
        Assert.Equal(total, Volatile.Read(ref taken));
        // Memory that the session has replaced belongs to it: it was not written to since.
        if (kept is not null) Assert.Equal(all.AsSpan(keptAt, keptCount), kept.AsSpan(0, keptCount));
        if (rig.Engine.Kind is EngineKind.Epoll or EngineKind.Uring && !rig.IsVirtual && !rig.IsPool
            && session.Tls is null)
            Assert.NotNull(kept);
    });

    // The responses of a callback to its data fit into the queue: its limit is four times the size.
    [Fact, Contract(3, 9)]
    public void At_most_a_quarter_of_a_MiB_is_received_at_a_time_into_memory_of_any_length() => Run(rig =>
    {
        byte[] data = Pattern(rig.IsVirtual ? 300_000 : 32 * 1024 * 1024);
        int largest = 0;
        RecordingServer server = rig.Serve(s =>
        {
            s.AtConnected = static x => x.Own = new byte[4 * 1024 * 1024];
            s.AtReceived = (x, bytes) =>
            {
                largest = Math.Max(largest, bytes.Length);
                x.Send(bytes);
            };
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        rig.Elsewhere(() => peer.Write(data));
        // The kernel accepts no more; over TLS reading stops at a quarter of a MiB, in steps of one receive.
        if (!rig.IsVirtual) rig.Until(() => session.BytesPending > 64 * 1024, "the queue to fill");
        Assert.Equal(data, peer.Read(data.Length));
        rig.Join();
        // an engine's own large block is a page longer
        Assert.InRange(Volatile.Read(ref largest), 1, (256 * 1024) + 4096);
        Assert.True(session.IsConnected);
    });

    // Between callbacks the session does not access that memory. While a callback runs, received data is kept
    // elsewhere.
    [Fact, Contract(3, 14)]
    public void A_pool_session_receives_into_its_own_memory_between_callbacks_and_reads_it_unchanged() => Run(rig =>
    {
        Assert.SkipWhen(!rig.IsPool || rig.IsVirtual || rig.Tls != TlsKind.None
            || rig.Engine.Kind == EngineKind.Portable, "This engine does not use the hint.");
        const int rounds = 40;
        byte[] own = new byte[64 * 1024];
        byte[] data = Pattern(60_000);
        int inOwn = 0, disturbed = 0, looked = 0;
        using ManualResetEventSlim inside = new();
        RecordingServer server = rig.Serve(s =>
        {
            s.AtConnected = x => x.Own = own;
            s.AtReceived = (x, bytes) =>
            {
                bool isInOwn = bytes.Overlaps(own);
                if (isInOwn) Interlocked.Increment(ref inOwn);
                if (isInOwn && inOwn > rounds / 4 && looked == 0)
                {
                    byte[] before = bytes.ToArray();
                    long more = x.BytesReceived + (data.Length / 2);
                    inside.Set();
                    looked = SpinWait.SpinUntil(() => x.BytesReceived >= more, TimeSpan.FromSeconds(10)) ? 1 : -1;
                    if (!bytes.SequenceEqual(before)) Interlocked.Increment(ref disturbed);
                }

                x.Send(bytes);
            };
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        for (int i = 1; Volatile.Read(ref looked) == 0; i++)
        {
            Assert.InRange(i, 1, 50 * rounds);
            peer.Write(data);
            long all = (long)i * data.Length;
            rig.Until(() => inside.IsSet || session.BytesSent == all, "the answer");
            bool isLookedAt = inside.IsSet;
            if (isLookedAt) peer.Write(data);
            Assert.Equal(isLookedAt ? [.. data, .. data] : data, peer.Read(isLookedAt ? 2 * data.Length : data.Length));
        }

        Assert.Equal((1, 0), (looked, disturbed));
        peer.ShutdownSend();
        Assert.Equal(CloseCause.PeerClosed, session.End());
    });

    [Fact, Contract(3, 15)]
    public void A_session_that_takes_over_does_not_receive_into_memory_of_the_previous_one() => Run(rig =>
    {
        byte[] own = new byte[64 * 1024];
        byte[] data = Pattern(rig.IsVirtual ? 256 * 1024 : 4 * 1024 * 1024);
        int inOwn = 0;
        RecordingSession next = new(rig) { IsSuccessor = true };
        next.AtReceived = (_, bytes) =>
        {
            if (bytes.Overlaps(own)) Interlocked.Increment(ref inOwn);
        };
        RecordingServer server = rig.Serve(s =>
        {
            s.AtConnected = x => x.Own = own;
            s.AtReceived = (x, _) =>
            {
                if (x.BytesReceived > data.Length / 2 && x.IsConnected) x.CallHandOver(next);
            };
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession first = server.Connected();
        rig.Elsewhere(() => peer.Write(data));
        rig.Until(() => first.ReceivedCount + next.ReceivedCount == data.Length, "all bytes at both");
        rig.Join();
        Assert.Equal(data, (byte[])[.. first.Received, .. next.Received]);
        Assert.Equal(0, Volatile.Read(ref inOwn));
        Assert.Throws<InvalidOperationException>(() => next.Own = own);
        rig.OnLoop(next, () => next.Own = own);
    });

    [Theory, Contract(3)]
    [InlineData("callback")]
    [InlineData("session")]
    [InlineData("elsewhere")]
    public void Unread_data_is_delivered_again_on_request_without_new_bytes(string where) => Run(rig =>
    {
        int offers = 0;
        RecordingServer server = rig.Serve(s => s.AtData = (x, unread) =>
        {
            // The bytes arrived in one or several calls; the last delivery was requested.
            if (unread.Length < 6) return 0;
            if (Interlocked.Increment(ref offers) > 1) return unread.Length;
            if (where == "callback") x.DeliverAgain();
            return 2;
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        peer.Write("abcdefgh");
        rig.Until(() => Volatile.Read(ref offers) > 0, "the first offer");
        if (where != "callback")
        {
            rig.Settle();
            Assert.Equal(2, session.ReceivedCount);
            if (where == "session") rig.OnLoop(session, session.DeliverAgain);
            else rig.Elsewhere(session.DeliverAgain);
            rig.Join();
        }

        session.UntilReceived(8);
        Assert.Equal("abcdefgh", session.ReceivedText);
    });

    [Fact, Contract(3, 10)]
    public void A_delivery_requested_in_a_pause_comes_at_its_end_and_only_with_unread_data() => Run(rig =>
    {
        bool takes = false;
        RecordingServer server = rig.Serve(s => s.AtData = (_, unread) => Volatile.Read(ref takes) ? unread.Length : 0);
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        peer.Write("abc");
        UntilArrived(rig, session, 3);
        rig.Settle();
        rig.OnLoop(session, session.PauseReceiving);
        Volatile.Write(ref takes, true);
        int offers = session.Offers.Count;
        rig.OnLoop(session, session.DeliverAgain);
        rig.Settle();
        Assert.Equal(offers, session.Offers.Count);
        session.ResumeReceiving();
        session.UntilReceived(3);
        offers = session.Offers.Count;
        rig.OnLoop(session, session.DeliverAgain);
        rig.Settle();
        Assert.Equal(offers, session.Offers.Count);
        peer.Write("d");
        session.UntilReceived(4);
    });

    // A protocol that consumes one message per callback; the peer's FIN may have been received before the first message
    // was processed.
    [Theory, Contract(3, 11)]
    [InlineData("paused")]
    [InlineData("needs more")]
    public void All_repeatedly_requested_deliveries_come_before_the_peers_end(string waits) => Run(rig =>
    {
        bool isPaused = waits == "paused";
        RecordingServer server = rig.Serve(s =>
        {
            if (isPaused) s.AtConnected = static x => x.PauseReceiving();
            s.AtData = (x, unread) =>
            {
                if (!isPaused && x.Offers.Count == 1)
                {
                    x.CallSetMinimumBytes(100);
                    return 0;
                }

                x.DeliverAgain();
                return 1;
            };
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        peer.Write("abcdefgh");
        peer.ShutdownSend();
        if (isPaused)
        {
            rig.Settle();
            session.ResumeReceiving();
        }

        session.Until("peer finished");
        Assert.Equal("abcdefgh", session.ReceivedText);
        Assert.True(session.Events.ToList().IndexOf("peer finished") > session.Events.ToList()
            .FindLastIndex(static e => e.StartsWith("received", StringComparison.Ordinal)), session.Life);
    });

    [Fact, Contract(3)]
    public void Data_left_by_a_partial_consume_waits_for_more() => Run(rig =>
    {
        List<string> wrong = [];
        long lastArrived = 0;
        RecordingServer server = rig.Serve(s => s.AtData = (x, unread) =>
        {
            if (x.BytesReceived == lastArrived) wrong.Add($"offered again at {lastArrived} bytes");
            if (unread.Length != x.BytesReceived - x.ReceivedCount)
                wrong.Add($"{unread.Length} offered of {x.BytesReceived} with {x.ReceivedCount} taken");
            lastArrived = x.BytesReceived;
            return 1;
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        for (int i = 1; i <= 5; i++)
        {
            peer.Write("abcd");
            UntilArrived(rig, session, 4 * i);
            rig.Settle();
        }

        Assert.Empty(wrong);
        Assert.Equal(Text(Bytes("abcdabcdabcdabcdabcd").AsSpan(0, session.ReceivedCount)), session.ReceivedText);
        Assert.InRange(session.ReceivedCount, 5, 20);
    });

    [Fact, Contract(3)]
    public void Messages_are_found_at_every_split_of_their_bytes() => Run(rig =>
    {
        // Three messages, each a length byte and its content.
        byte[] stream = [3, 1, 2, 3, 0, 5, 9, 8, 7, 6, 5];
        RecordingServer server = rig.Serve(static s => s.AtData = static (x, unread) =>
        {
            int taken = 0;
            while (taken < unread.Length && unread.Length - taken > unread[taken])
            {
                ((List<int>)(x.Tag ??= new List<int>())).Add(unread[taken]);
                taken += 1 + unread[taken];
            }

            return taken;
        });
        for (int split = 1; split < stream.Length; split++)
        {
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            RecordingSession session = server.Connected(split - 1);
            peer.Write(stream[..split]);
            UntilArrived(rig, session, split);
            peer.Write(stream[split..]);
            session.UntilReceived(stream.Length);
            Assert.Equal([3, 0, 5], (List<int>)session.Tag!);
            Assert.Equal(stream, session.Received);
        }
    });

    [Fact, Contract(3)]
    public void A_long_stream_arrives_unchanged_however_much_is_consumed_at_a_time() => Run(rig =>
    {
        byte[] data = Pattern(300_000);
        int call = 0;
        RecordingServer server =
            rig.Serve(s => s.AtData = (_, unread) => Math.Min(unread.Length, unread.Length - (call++ % 7)));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        peer.Write(data);
        UntilArrived(rig, session, data.Length);
        session.AtData = null;
        peer.Write([1]);
        session.UntilReceived(data.Length + 1);
        Assert.Equal(data, session.Received[..data.Length]);
        Assert.Equal(data.Length + 1, session.BytesReceived);
    });

    [Fact, Contract(3)]
    public void SetMinimumBytes_holds_the_offer_back_until_there_is_enough() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s =>
        {
            s.AtConnected = static x => x.CallSetMinimumBytes(10);
            s.AtData = static (_, unread) => unread.Length;
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        for (int i = 0; i < 9; i++)
        {
            peer.Write("x");
            UntilArrived(rig, session, i + 1);
        }

        rig.Settle();
        Assert.Empty(session.Offers);
        peer.Write("x");
        session.UntilReceived(10);
        peer.Write("y");
        session.UntilReceived(11);
        Assert.Equal([10, 1], session.Offers);
    });

    [Fact, Contract(3)]
    public void SetMinimumBytes_counts_what_is_left_unread() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtData = static (x, unread) =>
        {
            if (x.Offers.Count > 1) return unread.Length;
            x.CallSetMinimumBytes(8);
            return 1;
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        peer.Write("abcd");
        UntilArrived(rig, session, 4);
        peer.Write("efgh");
        UntilArrived(rig, session, 8);
        rig.Settle();
        Assert.Single(session.Offers);
        peer.Write("i");
        session.UntilReceived(9);
        Assert.Equal(8, session.Offers[1]);
        Assert.Equal("abcdefghi", session.ReceivedText);
    });

    [Fact, Contract(3)]
    public void Data_held_back_by_SetMinimumBytes_is_delivered_when_the_peer_finishes_first() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s =>
        {
            s.AtConnected = static x => x.CallSetMinimumBytes(100);
            s.AtData = static (_, unread) => unread.Length;
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("short");
        peer.ShutdownSend();
        RecordingSession session = server.Session();
        session.End();
        Assert.Equal("connecting, connected, received 5, peer finished, disconnected PeerClosed", session.Life);
    });

    [Fact, Contract(3)]
    public void SetMinimumBytes_refuses_what_can_never_be_fulfilled_and_foreign_threads() => Run(rig =>
    {
        List<string> refused = [];
        RecordingServer server = rig.Serve(
            s => s.AtConnected = x =>
            {
                foreach (int count in new[] { -1, 0, 2049 })
                {
                    try
                    {
                        x.CallSetMinimumBytes(count);
                    }
                    catch (ArgumentOutOfRangeException e)
                    {
                        refused.Add($"{e.ActualValue}");
                    }
                }

                x.CallSetMinimumBytes(2048);
            },
            WithUnreadLimit(rig, 2048));
        rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        rig.Settle();
        Assert.Equal(["-1", "0", "2049"], refused);
        Assert.Throws<InvalidOperationException>(() => session.CallSetMinimumBytes(1));
    });

    // ------------------------------------------------------------------ the limit

    [Fact, Contract(3)]
    public void One_byte_below_the_unread_limit_the_connection_lives() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s =>
            s.AtData = static (_, unread) => unread[^1] == (byte)'!' ? unread.Length : 0, WithUnreadLimit(rig, 1024));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        peer.Write(new byte[1023]);
        UntilArrived(rig, session, 1023);
        rig.Settle();
        Assert.True(session.IsConnected);
    });

    [Fact, Contract(3)]
    public void At_the_unread_limit_with_nothing_consumed_the_connection_ends_with_a_reason() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtData = static (_, _) => 0, WithUnreadLimit(rig, 1024));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        peer.Write(new byte[1023]);
        UntilArrived(rig, session, 1023);
        peer.Write("x");
        Assert.Equal(CloseCause.UnreadLimit, session.End());
        Assert.Equal(CloseInitiator.Library, session.Reason.Initiator);
        Assert.Equal(ErrorCategory.Limit, session.Reason.Error.Category);
        Assert.Equal("connecting, connected, disconnected UnreadLimit", session.Life);
    });

    [Fact, Contract(3)]
    public void A_session_that_consumes_some_data_may_exceed_the_unread_limit() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtData = static (_, _) => 1, WithUnreadLimit(rig, 1024));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        for (int sent = 0; sent < 3000; sent += 500)
        {
            peer.Write(new byte[500]);
            UntilArrived(rig, session, sent + 500);
        }

        rig.Settle();
        Assert.True(session.IsConnected);
    });

    [Fact, Contract(3)]
    public void A_minimum_of_as_many_bytes_as_the_limit_is_fulfilled() => Run(rig =>
    {
        RecordingServer server = rig.Serve(
            static s =>
            {
                s.AtConnected = static x => x.CallSetMinimumBytes(1024);
                s.AtData = static (_, unread) => unread.Length;
            },
            WithUnreadLimit(rig, 1024));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        peer.Write(new byte[1000]);
        UntilArrived(rig, session, 1000);
        peer.Write(new byte[24]);
        session.UntilReceived(1024);
        Assert.Equal([1024], session.Offers);
    });

    // ------------------------------------------------------------------ the end, and the beginning

    [Fact, Contract(3, 11)]
    public void The_peers_end_follows_the_delivery_of_the_last_byte_even_if_some_are_unconsumed() => Run(rig =>
    {
        int left = -1;
        RecordingServer server = rig.Serve(s =>
        {
            s.AtData = static (x, _) => x.ReceivedCount == 0 ? 1 : 0;
            s.AtEndOfStream = x =>
            {
                left = x.CallUnreadCount;
                x.Close();
            };
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("abcdef");
        peer.ShutdownSend();
        RecordingSession session = server.Session();
        session.End();
        Assert.Equal(5, left);
        Assert.Equal("connecting, connected, received 1, peer finished, disconnected PeerClosed", session.Life);
    });

    [Fact, Contract(3)]
    public void Data_pending_at_the_accept_is_delivered_after_OnConnected() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        for (int i = 0; i < 20; i++)
        {
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            peer.Write("early");
            RecordingSession session = server.Session(i);
            session.UntilReceived(5);
            Assert.Equal("connecting, connected, received 5", session.Life);
        }
    });

    [Fact, Contract(3)]
    public void Data_that_arrives_during_a_connect_is_delivered_after_OnConnected() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtConnected = static x => x.Send("greeting"u8));
        for (int i = 0; i < 20; i++)
        {
            RecordingSession session = rig.Connect(server.EndPoint!);
            session.UntilReceived(8);
            Assert.Equal("connecting, connected, received 8", session.Life);
        }
    });

    [Fact, Contract(1, 3, 11)]
    public void Data_and_FIN_received_together_are_reported_in_order() => Run(rig =>
    {
        byte[] data = Pattern(100_000);
        RecordingServer server = rig.Serve(static s => s.AtData = static (_, unread) => unread.Length);
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write(data);
        peer.ShutdownSend();
        RecordingSession session = server.Session();
        session.End();
        Assert.Equal(data, session.Received);
        Assert.Equal("connecting, connected, received 100000, peer finished, disconnected PeerClosed", session.Life);
    });

    [Fact, Contract(3, 15)]
    public void Unread_bytes_go_to_the_next_session() => Run(rig =>
    {
        RecordingSession next = new(rig) { IsSuccessor = true };
        RecordingServer server = rig.Serve(s => s.AtData = (x, _) =>
        {
            x.CallHandOver(next);
            return 1;
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("abcdef");
        RecordingSession first = server.Session();
        next.UntilReceived(5);
        Assert.Equal("a", first.ReceivedText);
        Assert.Equal("bcdef", next.ReceivedText);
        Assert.Equal(CloseCause.HandedOver, first.End());
        peer.Write("gh");
        next.UntilReceived(7);
        peer.ShutdownSend();
        rig.Until(() => next.IsOver, "the next session to end");
        Assert.Equal("connected, received 7, peer finished, disconnected PeerClosed", next.Life);
    });

    // ------------------------------------------------------------------ mistakes of the session, and the span

    [Theory, Contract(3, 4)]
    [InlineData(-1)]
    [InlineData(4)]
    [InlineData(int.MaxValue)]
    public void Consuming_more_than_was_delivered_ends_the_connection(int taken) => Run(rig =>
    {
        RecordingServer server = rig.Serve(s => s.AtData = (_, _) => taken);
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        peer.Write("abc");
        Assert.Equal(CloseCause.UserException, session.End());
        Assert.IsType<InvalidOperationException>(session.Error);
    });

    [Fact, Contract(13)]
    public void The_span_is_unchanged_until_the_call_returns_whatever_it_calls() => Run(rig =>
    {
        bool same = false;
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, data) =>
        {
            byte[] copy = data.ToArray();
            x.Send(data);
            x.Send(Outgoing.Pieces(data, data));
            x.Server!.Broadcast(data);
            x.PauseReceiving();
            x.ResumeReceiving();
            x.CallStartTimer(TimeSpan.Zero);
            x.Close();
            same = data.SequenceEqual(copy);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        byte[] sent = Pattern(5000);
        peer.Write(sent);
        byte[] answer = peer.ReadToEnd();
        peer.Close();
        server.Session().End();
        Assert.True(same);
        Assert.Equal(server.Session().Received, answer[..server.Session().ReceivedCount]);
    });

    // ------------------------------------------------------------------ writing to what was received

    private static void Raise(RecordingSession session, ReadOnlySpan<byte> received)
    {
        foreach (ref byte letter in session.CallWritable(received)) letter -= 32;
    }

    [Fact, Contract(3, 13)]
    public void Changes_of_a_session_to_received_bytes_are_delivered_again_as_written() => Run(rig =>
    {
        List<string> offers = [];
        RecordingServer server = rig.Serve(s => s.AtData = (x, unread) =>
        {
            // Each is raised once: the first in the received buffer, the others in the buffer where they wait.
            int done = x.Tag as int? ?? 0;
            Raise(x, unread[done..]);
            x.Tag = unread.Length;
            lock (offers) offers.Add(Text(unread));
            return unread.Length < 6 ? 0 : unread.Length;
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        for (int arrived = 2; arrived <= 6; arrived += 2)
        {
            peer.Write("abcdef".Substring(arrived - 2, 2));
            rig.Until(() => session.Tag is int done && done >= arrived, $"{arrived} bytes to be offered");
        }

        session.UntilReceived(6);
        Assert.Equal("ABCDEF", session.ReceivedText);
        Assert.All(offers, offer => Assert.Equal("ABCDEF"[..offer.Length], offer));
    });

    [Fact, Contract(13, 15)]
    public void Changes_of_a_session_to_received_bytes_go_to_the_next_session() => Run(rig =>
    {
        RecordingSession next = new(rig) { IsSuccessor = true };
        RecordingServer server = rig.Serve(s => s.AtData = (x, unread) =>
        {
            if (unread.Length < 3) return 0;
            Raise(x, unread);
            x.CallHandOver(next);
            return 1;
        });
        rig.ConnectPeer(server.EndPoint!).Write("abc");
        next.UntilReceived(2);
        Assert.Equal("BC", next.ReceivedText);
    });

    [Fact, Contract(13)]
    public void Writes_of_a_session_into_received_bytes_are_not_visible_to_others() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        byte[] sent = Pattern(40_000);
        using SharedBytes shared = new(sent);
        RecordingSession[] members = new RecordingSession[3];
        for (int i = 0; i < members.Length; i++)
        {
            members[i] = rig.Connect(server.EndPoint!, static s => s.AtData = static (x, unread) =>
            {
                // Stored as received, then overwritten to detect shared memory.
                x.Tag = (x.Tag as byte[] ?? []).Concat(unread.ToArray()).ToArray();
                x.CallWritable(unread).Fill(0x55);
                return unread.Length;
            });
            server.Connected(i);
        }

        rig.Until(() => server.Sessions.Count == members.Length, "all to be members");
        rig.Await(server.Sessions.BroadcastAsync(shared, 0, sent.Length, Timeout.InfiniteTimeSpan));
        rig.Await(server.Sessions.BroadcastAsync(Bytes("small")));
        foreach (RecordingSession member in members)
        {
            member.UntilReceived(sent.Length + 5);
            Assert.Equal([.. sent, .. Bytes("small")], (byte[])member.Tag!);
        }

        Assert.Equal(sent, shared.Memory.ToArray());
    });

    [Fact, Contract(13)]
    public void Only_what_the_running_callback_was_given_may_be_written_to() => Run(rig =>
    {
        List<string> wrong = [];
        RecordingServer server = rig.Serve(s =>
        {
            s.AtReceived = (x, data) =>
            {
                byte[] other = data.ToArray();
                if (!Refuses(x, other)) wrong.Add("other memory");
                if (!x.CallWritable(data[..0]).IsEmpty) wrong.Add("nothing");
                if (x.CallWritable(data[1..2]).Length != 1 || x.CallWritable(data).Length != data.Length)
                    wrong.Add("its own bytes");
                if (!Refuses(x,
                    MemoryMarshal.CreateReadOnlySpan(ref MemoryMarshal.GetReference(data), data.Length + 1)))
                    wrong.Add("more than it was given");
                x.CallStartTimer(TimeSpan.Zero);
            };
            s.AtTimer = (x, _) =>
            {
                if (!Refuses(x, [1])) wrong.Add("a timer");
                x.Tag = true;
            };
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        peer.Write("abcd");
        rig.Until(() => session.Tag is true, "the timer to fire");
        Assert.Empty(wrong);
        Assert.True(Refuses(session, [1]));
    });

    private static bool Refuses(RecordingSession session, ReadOnlySpan<byte> bytes)
    {
        try
        {
            session.CallWritable(bytes);
            return false;
        }
        catch (InvalidOperationException)
        {
            return true;
        }
    }

    // Safe: the block is only read, and belongs to the engine, which lives longer than the test. In the memory engine
    // it is an array that a collection could move, so the check counts only if there was none.
    [Fact, Contract(13)]
    public unsafe void After_the_call_the_bytes_of_the_span_are_overwritten() => Run(rig =>
    {
        Assert.SkipUnless(rig.IsVirtual || IsDebugBuild, "Release builds of the real engines do not make this check.");
        nint block = 0;
        int collections = -1;
        RecordingServer server = rig.Serve(s => s.AtReceived = (_, data) =>
        {
            collections = GC.CollectionCount(0);
            fixed (byte* p = data) block = (nint)p;
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        for (int i = 1; i <= 20; i++)
        {
            peer.Write("x");
            session.UntilReceived(i);
            byte after = 0;
            rig.OnLoop(session, () => after = *(byte*)block);
            if (collections != GC.CollectionCount(0)) continue;
            Assert.Equal(0xDD, after);
            return;
        }

        Assert.Fail("There was a collection each time.");
    });

    private static bool IsDebugBuild =>
        typeof(Session).Assembly.GetCustomAttributes(typeof(System.Diagnostics.DebuggableAttribute), false)
            is [System.Diagnostics.DebuggableAttribute { IsJITOptimizerDisabled: true }];
}
