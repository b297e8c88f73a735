using Whimbrel.Testing;

namespace Whimbrel.Tests;

// Changes of a group while a broadcast enumerates its members: each member is served exactly once.
public sealed class GroupWalkTests : IDisposable
{
    private const int Members = 6;

    private static readonly MemoryEndPoint s_here = new("here");

    private readonly List<Recorder> _sessions = [];
    private readonly List<MemoryPeer> _peers = [];
    private readonly SessionGroup _group = new();
    private readonly MemoryEngine _engine;
    private readonly Server _server;
    private Action<DiagnosticEvent>? _whenNotice;

    public GroupWalkTests()
    {
        _engine = new MemoryEngine(1, onDiagnosticEvent: n => _whenNotice?.Invoke(n),
            faults: MemoryFaults.None with { WireBytes = 64 * 1024 });
        _server = new Server(
            new ServerOptions { Engine = _engine, EndPoint = s_here, Limits = new() { SendBytes = 64 * 1024 } },
            () =>
            {
                Recorder session = new() { Tag = _sessions.Count };
                _sessions.Add(session);
                return session;
            });
        _engine.Run(_server.StartAsync());
        for (int i = 0; i < Members; i++) _peers.Add(_engine.Connect(s_here));
        _engine.RunUntilIdle();
        OnLoop(() => _sessions.ForEach(_group.Join));
    }

    public void Dispose()
    {
        _engine.Run(_server.StopAsync(TimeSpan.Zero));
        Assert.Equal(0, _group.Count);
        _engine.Run(_engine.DisposeAsync());
        Assert.Equal(0, _engine.GetLoop(0).Blocks.Outstanding);
    }

    private void OnLoop(Action action) => _engine.OnLoop(action);

    private string Read(int peer)
    {
        byte[] bytes = new byte[_peers[peer].Available];
        _peers[peer].Read(bytes);
        return System.Text.Encoding.ASCII.GetString(bytes);
    }

    // The sessions that received it, each as often as it did.
    private int[] Served(string text) =>
        [.. Enumerable.Range(0, Members).SelectMany(i => Enumerable.Repeat(i, Read(i).Length / text.Length))];

    [Theory]
    [InlineData(3, 0)]
    [InlineData(3, 1)]
    [InlineData(3, 5)]
    [InlineData(5, 0)]
    [InlineData(5, 4)]
    [InlineData(0, 5)]
    [InlineData(2, 2)]
    public void A_member_that_a_predicate_makes_leave_neither_doubles_nor_hides_another(int at, int leaver)
    {
        List<int> asked = [];
        OnLoop(() => _group.Broadcast("hello|"u8, session =>
        {
            asked.Add((int)session.Tag!);
            if (session.Tag is int tag && tag == at) _group.Leave(_sessions[leaver]);
            return true;
        }));
        // Members are visited from the last to the first: members with a higher index were served already.
        bool wasServed = leaver >= at;
        int[] expected = [.. Enumerable.Range(0, Members).Where(i => i != leaver || wasServed)];
        Assert.Equal(expected, asked.Order());
        Assert.Equal(expected, Served("hello|"));
        Assert.Equal(Members - 1, _group.Count);
        OnLoop(() => _group.Broadcast("again|"u8));
        Assert.Equal(Enumerable.Range(0, Members).Where(i => i != leaver), Served("again|"));
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void A_predicate_that_empties_the_group_serves_only_the_member_it_was_called_for(bool byClear)
    {
        OnLoop(() => _group.Broadcast("hello|"u8, session =>
        {
            if ((int)session.Tag! == 4)
            {
                if (byClear) _group.Clear();
                else _sessions.ForEach(_group.Leave);
            }

            return true;
        }));
        Assert.Equal([4, 5], Served("hello|"));
        Assert.Equal(0, _group.Count);
        OnLoop(() => _sessions.ForEach(_group.Join));
        OnLoop(() => _group.Broadcast("again|"u8));
        Assert.Equal(Enumerable.Range(0, Members), Served("again|"));
    }

    [Fact]
    public void A_session_that_joins_during_a_broadcast_gets_the_next_one_even_if_it_was_a_member_before()
    {
        OnLoop(() => _group.Leave(_sessions[5]));
        OnLoop(() => _group.Broadcast("hello|"u8, session =>
        {
            if ((int)session.Tag! == 3)
            {
                _group.Join(_sessions[5]);
                _group.Leave(_sessions[4]); // was served
                _group.Join(_sessions[4]);
                _group.Leave(_sessions[1]); // was not
                _group.Join(_sessions[1]);
            }

            return true;
        }));
        Assert.Equal([0, 2, 3, 4], Served("hello|"));
        OnLoop(() => _group.Broadcast("again|"u8));
        Assert.Equal(Enumerable.Range(0, Members), Served("again|"));
    }

    [Fact]
    public void A_broadcast_in_a_predicate_that_makes_members_leave_disturbs_neither()
    {
        OnLoop(() => _group.Broadcast("outer|"u8, outer =>
        {
            if ((int)outer.Tag! != 3) return true;
            _group.Broadcast("inner|"u8, inner =>
            {
                if ((int)inner.Tag! == 4) _group.Leave(_sessions[1]);
                if ((int)inner.Tag! == 2) _group.Leave(_sessions[5]);
                return true;
            });
            return true;
        }));
        // 4 and 5 received the outer broadcast already; from 3 on the inner one comes first. 1 left before either
        // reached it.
        Assert.Equal("inner|outer|,,inner|outer|,inner|outer|,outer|inner|,outer|inner|",
            string.Join(',', Enumerable.Range(0, Members).Select(Read)));
        Assert.Equal(4, _group.Count);
    }

    [Fact]
    public void The_callback_for_a_slow_member_may_make_others_leave()
    {
        // Its peer reads nothing: 64 KiB are in the wire, 64 KiB are queued.
        for (int i = 0; i < 2; i++) OnLoop(() => _sessions[3].Send(new byte[64 * 1024]));
        Assert.Equal(64 * 1024, _sessions[3].BytesPending);
        List<DiagnosticEventKind> notices = [];
        _whenNotice = notice =>
        {
            notices.Add(notice.Kind);
            _group.Leave(_sessions[0]);
            _group.Leave(_sessions[4]);
            _group.Leave(_sessions[3]);
        };
        OnLoop(() => _group.Broadcast("hello|"u8));
        Assert.Equal([DiagnosticEventKind.SlowConsumer], notices);
        Assert.Equal(",hello|,hello|,hello|,hello|",
            string.Join(',', Enumerable.Range(0, Members).Where(static i => i != 3).Select(Read)));
        Assert.Equal(3, _group.Count);
    }

    // Members leave, join and receive other broadcasts inside predicates. The model is a set: for each broadcast, a
    // member for the whole time was asked once, a session that was no member at its beginning was never asked, and no
    // session was asked twice.
    [Fact]
    public void Each_member_is_asked_once_even_if_predicates_change_the_group()
    {
        foreach (int seed in Seeds.Some(300))
        {
            Random random = new(seed);
            HashSet<int> members = [.. Enumerable.Range(0, Members)];
            int[] expected = new int[Members];
            List<Walk> walks = [];
            List<string> wrong = []; // an exception in a predicate would only skip that member
            OnLoop(() =>
            {
                _sessions.ForEach(_group.Join);
                for (int i = 0; i < 3; i++) Broadcast(depth: 0);
            });
            Assert.True(wrong.Count == 0, $"seed {seed}: {string.Join(", ", wrong)}");
            Assert.True(members.Count == _group.Count,
                $"seed {seed}: {_group.Count} members, {members.Count} in the model");
            for (int i = 0; i < Members; i++)
                Assert.True(Read(i).Length == expected[i],
                    $"seed {seed}: session {i} did not get {expected[i]} messages");

            void Broadcast(int depth)
            {
                Walk walk = new([.. members]);
                walks.Add(walk);
                _group.Broadcast("x"u8, session =>
                {
                    int tag = (int)session.Tag!;
                    if (!walk.Asked.Add(tag)) wrong.Add($"{tag} was asked twice");
                    if (!walk.Staying.Contains(tag)) wrong.Add($"{tag} was asked, and was no member all the time");
                    for (int i = random.Next(3); i > 0; i--) Disturb(depth);
                    if (random.Next(4) == 0) return false;
                    expected[tag]++;
                    return true;
                });
                walks.Remove(walk);
                wrong.AddRange(walk.Staying.Except(walk.Asked).Select(static tag => $"{tag} was passed by"));
            }

            void Disturb(int depth)
            {
                int tag = random.Next(Members);
                switch (random.Next(5))
                {
                    case 0 or 1:
                        _group.Leave(_sessions[tag]);
                        members.Remove(tag);
                        walks.ForEach(w => w.Staying.Remove(tag));
                        break;
                    case 2 or 3:
                        _group.Join(_sessions[tag]);
                        members.Add(tag);
                        break;
                    default:
                        if (depth < 2) Broadcast(depth + 1);
                        break;
                }
            }
        }
    }

    private sealed class Walk(HashSet<int> staying)
    {
        // Members from its beginning without interruption.
        internal HashSet<int> Staying { get; } = staying;

        internal HashSet<int> Asked { get; } = [];
    }
}
