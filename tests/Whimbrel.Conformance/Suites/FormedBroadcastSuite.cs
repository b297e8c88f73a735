using System.Buffers;

namespace Whimbrel.Conformance;

/// <summary>Contract 17 for broadcasts encoded per class of members, and for broadcasts of shared bytes.</summary>
public abstract class FormedBroadcastSuite(Transport transport) : TrafficSuite(transport)
{
    private static void Write(string text, int memberClass, IBufferWriter<byte> output) =>
        output.Write(Bytes($"{memberClass}[{text}]"));

    // The requested classes, in order, and the number of calls on a thread other than the caller's.
    private sealed class Asked
    {
        private readonly Lock _gate = new();
        private string _classes = "";
        private int _threads;

        public string Classes
        {
            get
            {
                lock (_gate) return _classes;
            }
        }

        public bool WasAskedElsewhere => Volatile.Read(ref _threads) > 0;

        /// <summary>Must be called by the broadcasting thread.</summary>
        public BroadcastEncoder<string> Encoder()
        {
            int thread = Environment.CurrentManagedThreadId;
            return (text, memberClass, output) =>
            {
                if (Environment.CurrentManagedThreadId != thread) Interlocked.Increment(ref _threads);
                lock (_gate) _classes += memberClass;
                Write(text, memberClass, output);
            };
        }
    }

    private static SessionGroup Joined(Rig rig, List<(RecordingSession Session, Peer Peer)> pairs, bool onLoop,
        Func<int, int> classOf)
    {
        SessionGroup group = new("classes");
        for (int i = 0; i < pairs.Count; i++)
        {
            int memberClass = classOf(i);
            RecordingSession session = pairs[i].Session;
            At(rig, session, onLoop, () => group.Join(session, memberClass));
        }

        rig.Until(() => group.Count == pairs.Count, "all to join");
        return group;
    }

    [Theory, Contract(17)]
    [InlineData(true)]
    [InlineData(false)]
    public void Each_class_gets_its_own_form_which_is_encoded_once_by_the_caller(bool onLoop) => Run(rig =>
    {
        (_, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 8);
        SessionGroup group = Joined(rig, pairs, onLoop, static i => (i % 3) * 7);
        Asked asked = new();
        At(rig, pairs[0].Session, onLoop, () =>
        {
            Assert.Equal(SendResult.Queued, group.Broadcast("hello", asked.Encoder()));
            Assert.Equal(SendResult.Queued, group.Broadcast("but one", asked.Encoder(), pairs[1].Session));
            Assert.Equal(SendResult.Queued,
                group.Broadcast("end", asked.Encoder(), s => !ReferenceEquals(s, pairs[2].Session)));
        });
        for (int i = 0; i < pairs.Count; i++)
        {
            int own = (i % 3) * 7;
            string expected = $"{own}[hello]{(i == 1 ? "" : $"{own}[but one]")}{(i == 2 ? "" : $"{own}[end]")}";
            Assert.Equal(expected, pairs[i].Peer.ReadText(expected.Length));
        }

        Assert.Equal("071407140714", asked.Classes);
        Assert.False(asked.WasAskedElsewhere);
        rig.Settle();
        Assert.All(pairs, static p => Assert.Equal(-1, p.Peer.TryRead(new byte[1])));
    });

    [Fact, Contract(17)]
    public void An_empty_class_is_not_encoded_and_a_class_without_a_form_gets_nothing() => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 4);
        SessionGroup group = Joined(rig, pairs, onLoop: false, static i => i == 3 ? 2 : i);
        Asked asked = new();
        rig.Elsewhere(() => group.Broadcast("a", asked.Encoder()));
        rig.Join();
        Assert.Equal("012", asked.Classes);
        Assert.Equal("1[a]", pairs[1].Peer.ReadText(4)); // the loops have processed it
        Assert.Equal("0[a]", pairs[0].Peer.ReadText(4));
        rig.OnLoop(pairs[1].Session, () => group.Leave(pairs[1].Session));
        pairs[0].Session.Abort();
        pairs[0].Session.End();
        rig.Until(() => group.Count == 2, "two to be left");
        Assert.Equal(new BroadcastResult(2, 0),
            rig.Await(group.BroadcastAsync("b", asked.Encoder(), Timeout.InfiniteTimeSpan)));
        Assert.Equal("0122", asked.Classes);
        // A member that joins again may have another class.
        group.Join(pairs[1].Session, 5);
        group.Join(pairs[1].Session, 6); // is a member already
        rig.Until(() => group.Count == 3, "one to come back");
        Assert.Equal(new BroadcastResult(1, 0), rig.Await(group.BroadcastAsync("c",
            static (text, memberClass, output) => { if (memberClass == 5) Write(text, memberClass, output); },
            Timeout.InfiniteTimeSpan)));
        // All sessions of a server have class 0.
        Assert.Equal(new BroadcastResult(3, 0),
            rig.Await(server.Sessions.BroadcastAsync("d", asked.Encoder(), Timeout.InfiniteTimeSpan)));
        Assert.Equal("01220", asked.Classes);
        Assert.Equal("5[c]0[d]", pairs[1].Peer.ReadText(8));
        Assert.Equal("2[a]2[b]0[d]", pairs[2].Peer.ReadText(12));
        Assert.Equal("2[a]2[b]0[d]", pairs[3].Peer.ReadText(12));
        Assert.Equal(SendResult.Queued,
            new SessionGroup().Broadcast("", static (_, _, _) => Assert.Fail("the group is empty")));
        Assert.Throws<ArgumentOutOfRangeException>(() => group.Join(pairs[1].Session, 16));
        Assert.Throws<ArgumentOutOfRangeException>(() => group.Join(pairs[1].Session, -1));
    });

    [Fact, Contract(17, 7)]
    public void A_class_is_encoded_from_its_first_join_on_and_forms_keep_their_place_among_other_calls() => Run(rig =>
    {
        (_, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 2);
        SessionGroup group = new();
        Asked asked = new();
        rig.Elsewhere(() =>
        {
            // From one caller, and the loops may not have processed any of it yet.
            foreach ((RecordingSession session, _) in pairs) session.Send("first "u8);
            for (int i = 0; i < 2; i++) group.Join(pairs[i].Session, i + 1);
            group.Broadcast("formed", asked.Encoder());
            group.Broadcast(" plain "u8);
            group.Leave(pairs[1].Session);
            group.Join(pairs[1].Session, 9);
            group.Broadcast("again", asked.Encoder());
            group.Leave(pairs[0].Session);
            foreach ((RecordingSession session, _) in pairs) session.Send(" last"u8);
            group.Broadcast("rest", asked.Encoder());
        });
        rig.Join();
        string one = "first 1[formed] plain 1[again] last";
        string other = "first 2[formed] plain 9[again] last9[rest]";
        Assert.Equal(one, pairs[0].Peer.ReadText(one.Length));
        Assert.Equal(other, pairs[1].Peer.ReadText(other.Length));
        rig.Settle();
        Assert.Equal(-1, pairs[0].Peer.TryRead(new byte[1]));
    });

    [Theory, Contract(17)]
    [InlineData(true)]
    [InlineData(false)]
    public void Forms_of_all_sizes_arrive_byte_for_byte(bool onLoop) => Run(rig =>
    {
        (_, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 6);
        SessionGroup group = Joined(rig, pairs, onLoop, static i => i % 3);
        // Near the limits of copying, of runs and of blocks; class 1 gets twice the size of the others.
        int[] lengths = [1, 1023, 1024, 5000, 8191, 16_383, 16_384, 33_000, 70_000, 100];
        byte[] all = Pattern(100_000, 3);
        foreach (int length in lengths)
        {
            Task<BroadcastResult> sent = Start(rig, pairs[2].Session, onLoop,
                () => group.BroadcastAsync<ReadOnlySpan<byte>>(
                    all.AsSpan(0, length),
                    static (bytes, memberClass, output) =>
                    {
                        output.Write([(byte)memberClass]);
                        for (int i = 0; i < (memberClass == 1 ? 2 : 1); i++) output.Write(bytes);
                    },
                    TimeSpan.FromSeconds(20)));
            Assert.Equal(new BroadcastResult(6, 0), Await(rig, sent));
        }

        for (int i = 0; i < pairs.Count; i++)
        {
            foreach (int length in lengths)
            {
                byte[] expected = i % 3 == 1
                    ? [1, .. all.AsSpan(0, length), .. all.AsSpan(0, length)]
                    : [(byte)(i % 3), .. all.AsSpan(0, length)];
                Assert.True(pairs[i].Peer.Read(expected.Length).AsSpan().SequenceEqual(expected),
                    $"{length} bytes for member {i}");
            }
        }
    });

    [Theory, Contract(17)]
    [InlineData(true)]
    [InlineData(false)]
    public void An_encoder_that_throws_throws_at_the_call_and_no_member_gets_anything(bool onLoop) => Run(rig =>
    {
        (_, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 4);
        SessionGroup group = Joined(rig, pairs, onLoop, static i => i);
        BroadcastEncoder<string> bad = static (text, memberClass, output) =>
        {
            Write(text, memberClass, output);
            if (memberClass == 2) throw new InvalidOperationException("on purpose");
        };
        Asked asked = new();
        At(rig, pairs[0].Session, onLoop, () =>
        {
            Assert.Equal("on purpose",
                Assert.Throws<InvalidOperationException>(() => { group.Broadcast("x", bad); }).Message);
            Assert.Equal("on purpose", Assert.Throws<InvalidOperationException>(
                () => { _ = group.BroadcastAsync("x", bad, TimeSpan.Zero); }).Message);
            // A broadcast of another group in the middle of one.
            group.Broadcast("outer", (text, memberClass, output) =>
            {
                Write(text, memberClass, output);
                if (memberClass == 1) group.Broadcast("inner", asked.Encoder());
                Write(text, memberClass, output);
            });
        });
        for (int i = 0; i < 4; i++) Assert.Equal($"{i}[inner]{i}[outer]{i}[outer]", pairs[i].Peer.ReadText(24));
        rig.Settle();
        Assert.All(pairs, static p => Assert.Equal(-1, p.Peer.TryRead(new byte[1])));
    });

    [Fact, Contract(17, 8)]
    public void A_member_at_its_limit_misses_its_form_as_a_whole_and_is_counted() => Run(rig =>
    {
        rig.Expect("slow consumer");
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 2, Narrow(rig));
        SessionGroup group = Joined(rig, pairs, onLoop: false, static i => i);
        rig.OnLoop(pairs[0].Session, () => pairs[0].Session.Gate = BroadcastGate.Held);
        rig.OnLoop(pairs[1].Session, () => pairs[1].Session.Gate = BroadcastGate.Held);
        byte[] half = Pattern(Limit / 2, 4);
        BroadcastEncoder<byte[]> encoder = static (bytes, memberClass, output) =>
        {
            output.Write(bytes);
            if (memberClass == 1) output.Write("+"u8);
        };
        Assert.Equal(new BroadcastResult(2, 0),
            rig.Await(group.BroadcastAsync(half, encoder, Timeout.InfiniteTimeSpan)));
        // Twice half the limit fits, twice half and a byte does not.
        Assert.Equal(new BroadcastResult(1, 1),
            rig.Await(group.BroadcastAsync(half, encoder, Timeout.InfiniteTimeSpan)));
        Assert.Equal(1, server.ReadCounters().BroadcastsDropped);
        rig.OnLoop(pairs[0].Session, () => pairs[0].Session.Gate = BroadcastGate.Open);
        rig.OnLoop(pairs[1].Session, () => pairs[1].Session.Gate = BroadcastGate.Open);
        Assert.True(pairs[0].Peer.Read(Limit).AsSpan().SequenceEqual((byte[])[.. half, .. half]));
        Assert.True(pairs[1].Peer.Read((Limit / 2) + 1).AsSpan().SequenceEqual((byte[])[.. half, (byte)'+']));
    });

    // ------------------------------------------------------------------ shared bytes

    [Theory, Contract(17)]
    [InlineData(true, 60_000)]
    [InlineData(false, 60_000)]
    [InlineData(true, 16_384)]
    [InlineData(false, 16_383)]
    [InlineData(false, 0)]
    public void Shared_bytes_reach_all_members_and_go_back_once_when_the_last_has_sent_them(bool onLoop, int length) =>
        Run(rig =>
        {
            (_, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 6);
            SessionGroup group = Joined(rig, pairs, onLoop, static i => i);
            byte[] bytes = Pattern(length + 100, 8);
            Memory owner = new(bytes);
            SharedBytes shared = new(owner, length + 100);
            At(rig, pairs[0].Session, onLoop, () =>
            {
                Assert.Equal(SendResult.Queued, group.Broadcast(shared, 30, length));
                Assert.Equal(SendResult.Queued, group.Broadcast(shared, 0, length, pairs[1].Session));
            });
            Task<BroadcastResult> counted = Start(rig, pairs[0].Session, onLoop, () =>
            {
                ValueTask<BroadcastResult> task = group.BroadcastAsync(shared, 50, length, Timeout.InfiniteTimeSpan,
                    predicate: s => !ReferenceEquals(s, pairs[2].Session));
                shared.Dispose();
                return task;
            });
            Assert.Equal(length == 0 ? default : new BroadcastResult(5, 0), Await(rig, counted));
            for (int i = 0; i < pairs.Count; i++)
            {
                byte[] expected = [.. bytes.AsSpan(30, length), .. i == 1 ? default : bytes.AsSpan(0, length),
                    .. i == 2 ? default : bytes.AsSpan(50, length)];
                Assert.True(pairs[i].Peer.Read(expected.Length).AsSpan().SequenceEqual(expected), $"member {i}");
            }

            rig.Until(() => owner.Disposals > 0, "the memory to be given back");
            rig.Settle();
            Assert.Equal(1, owner.Disposals);
            Assert.Throws<ObjectDisposedException>(() => { group.Broadcast(shared, 0, length); });
        });

    [Fact, Contract(17)]
    public void Shared_bytes_are_released_also_when_members_end_are_held_or_have_no_space() => Run(rig =>
    {
        rig.Expect("slow consumer");
        (_, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 5,
            Narrow(rig, SlowConsumer.Wait, limit: 100_000));
        SessionGroup group = Joined(rig, pairs, onLoop: false, static _ => 0);
        Memory owner = new(Pattern(60_000, 9));
        SharedBytes shared = new(owner, 60_000);
        rig.OnLoop(pairs[0].Session, () => pairs[0].Session.Gate = BroadcastGate.Held);
        rig.OnLoop(pairs[1].Session, () => pairs[1].Session.Gate = BroadcastGate.Held);
        rig.OnLoop(pairs[2].Session, () => pairs[2].Session.Gate = BroadcastGate.Shut);
        Assert.Equal(new BroadcastResult(4, 1),
            rig.Await(group.BroadcastAsync(shared, 0, 60_000, Timeout.InfiniteTimeSpan)));
        Assert.Equal(2, rig.Await(group.BroadcastAsync(shared, 0, 60_000, Timeout.InfiniteTimeSpan,
            predicate: s => pairs.FindIndex(p => ReferenceEquals(p.Session, s)) < 3)).Skipped - 1);
        shared.Dispose();
        Assert.Equal(0, owner.Disposals);
        rig.OnLoop(pairs[1].Session, () => pairs[1].Session.Gate = BroadcastGate.Open);
        Assert.Equal(60_000, pairs[1].Peer.Read(60_000).Length);
        pairs[3].Session.Abort();
        pairs[4].Session.Abort();
        Assert.Equal(0, owner.Disposals);
        pairs[0].Session.Abort();
        rig.Until(() => owner.Disposals == 1, "the memory to be given back");
    });

    [Fact, Contract(17, 4)]
    public void Shared_memory_that_throws_skips_its_broadcast_and_causes_a_diagnostic_event() => Run(rig =>
    {
        rig.Expect("memory that was broadcast threw");
        (_, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 3);
        SessionGroup group = Joined(rig, pairs, onLoop: false, static _ => 0);
        BadMemory bad = new(20_000);
        SharedBytes shared = new(bad.Owner, 20_000);
        bad.Place = BadPlace.Pin;
        Assert.Equal(default, rig.Await(group.BroadcastAsync(shared, 0, 20_000, Timeout.InfiniteTimeSpan)));
        Assert.Equal(new BroadcastResult(3, 0), rig.Await(group.BroadcastAsync(Bytes("after"))));
        foreach ((_, Peer peer) in pairs) Assert.Equal("after", peer.ReadText(5));
        Assert.All(pairs, static p => Assert.True(p.Session.IsConnected));
        shared.Dispose();
        rig.Until(() => bad.Disposals == 1, "the memory to be given back");
    });
}
