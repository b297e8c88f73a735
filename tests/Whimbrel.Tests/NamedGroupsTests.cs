using System.Globalization;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

// Memory cost of groups: dropped names leave nothing, and idle groups hold almost nothing.
public sealed class NamedGroupsTests : IDisposable
{
    private static readonly MemoryEndPoint s_here = new("here");

    private readonly MemoryEngine _engine = new(1, faults: MemoryFaults.None);
    private readonly List<Recorder> _sessions = [];
    private readonly List<MemoryPeer> _peers = [];
    private readonly Server _server;

    public NamedGroupsTests()
    {
        _server = new Server(
            new ServerOptions { Engine = _engine, EndPoint = s_here },
            () =>
            {
                Recorder session = new();
                _sessions.Add(session);
                return session;
            });
        _engine.Run(_server.StartAsync());
    }

    public void Dispose()
    {
        _engine.Run(_server.StopAsync(TimeSpan.Zero));
        Assert.Equal(0, _server.Groups.Count);
        _engine.Run(_engine.DisposeAsync());
        Assert.Equal(0, _engine.GetLoop(0).Blocks.RunCount);
    }

    private void Connect(int count)
    {
        for (int i = 0; i < count; i++) _peers.Add(_engine.Connect(s_here));
        _engine.RunUntil(() => _server.SessionCount == count && _sessions.Count == count
            && _server.Sessions.Count == count);
    }

    private void OnLoop(Action action) => _engine.OnLoop(action);

    private static string Name(int number) => string.Create(CultureInfo.InvariantCulture, $"room {number}");

    private static long ManagedBytes() => GC.GetTotalMemory(forceFullCollection: true);

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void A_million_names_joined_and_left_leave_nothing(bool onLoop)
    {
        const int Names = 1_000_000;
        const int Step = 10_000;
        Connect(1);
        long before = 0;
        for (int first = 0; first < Names; first += Step)
        {
            int from = first;
            Action action = () =>
            {
                for (int i = from; i < from + Step; i++)
                {
                    SessionGroup room = _server.Groups[Name(i)];
                    room.Join(_sessions[0]);
                    if (onLoop && _server.Groups.Count != 1)
                        Assert.Fail($"{_server.Groups.Count} groups, and one has a member");
                    room.Leave(_sessions[0]);
                }
            };
            if (onLoop) OnLoop(action);
            else _engine.Elsewhere(action);
            _engine.RunUntilIdle();
            Assert.Equal(0, _server.Groups.Count);
            if (first == 4 * Step) before = ManagedBytes(); // the mailbox has grown to its size
        }

        long grown = ManagedBytes() - before;
        Assert.True(grown < 1_000_000, $"{grown} bytes are left of {Names} names");
    }

    [Fact]
    public void Ten_thousand_groups_of_ten_cost_less_than_1200_bytes_each_and_share_their_runs()
    {
        const int Sessions = 1_000;
        const int Groups = 10_000;
        const int Members = 10;
        Connect(Sessions);
        long before = ManagedBytes();
        OnLoop(() =>
        {
            for (int g = 0; g < Groups; g++)
            {
                SessionGroup room = _server.Groups[Name(g)];
                for (int m = 0; m < Members; m++) room.Join(_sessions[(g + m) % Sessions]);
            }
        });
        Assert.Equal(Groups, _server.Groups.Count);
        Assert.All(_server.Groups, static g => Assert.Equal(Members, g.Count));
        long each = (ManagedBytes() - before) / Groups;
        TestContext.Current.TestOutputHelper?.WriteLine($"{each} bytes for each group of {Members}");
        Assert.True(each < 1_200, $"{each} bytes for each group of {Members}");

        // One broadcast in each, all in one iteration: at 64 KiB per run they would hold 640 MiB.
        int peak = 0;
        bool All(Session session)
        {
            peak = Math.Max(peak, session.Loop.Blocks.RunCount);
            return true;
        }

        OnLoop(() =>
        {
            foreach (SessionGroup room in _server.Groups) room.Broadcast("0123456789"u8, All);
        });
        Assert.All(_peers, static p => Assert.Equal(10 * Groups * Members / Sessions, p.Available));
        Assert.True(peak < 200, $"{peak} runs at the same time");
        Assert.True(_engine.GetLoop(0).Blocks.RunCount <= 33, $"{_engine.GetLoop(0).Blocks.RunCount} runs are kept");
    }

    [Fact]
    public void A_slow_member_keeps_the_run_of_its_group_open_and_nothing_is_mixed_up()
    {
        Connect(3);
        SessionGroup slow = _server.Groups["slow"];
        SessionGroup other = _server.Groups["other"];
        OnLoop(() =>
        {
            slow.Join(_sessions[0]);
            slow.Join(_sessions[1]);
            other.Join(_sessions[2]);
            // Fills the wire: from now on this member's bytes stay queued by reference.
            _sessions[0].Send(new byte[64 * 1024]);
        });
        for (int i = 0; i < 500; i++)
        {
            int number = i;
            OnLoop(() =>
            {
                slow.Broadcast(Name(number) + ";");
                other.Broadcast(Name(-number) + ";");
            });
        }

        Assert.InRange(_engine.GetLoop(0).Blocks.RunCount, 1, 3);
        byte[] rest = new byte[64 * 1024];
        Assert.Equal(rest.Length, _peers[0].Read(rest));
        _engine.RunUntilIdle();
        string expected = string.Concat(Enumerable.Range(0, 500).Select(static i => Name(i) + ";"));
        Assert.Equal(expected, Text(_peers[0]));
        Assert.Equal(expected, Text(_peers[1]));
        Assert.Equal(string.Concat(Enumerable.Range(0, 500).Select(static i => Name(-i) + ";")), Text(_peers[2]));
    }

    private static string Text(MemoryPeer peer)
    {
        byte[] bytes = new byte[peer.Available];
        Assert.Equal(bytes.Length, peer.Read(bytes));
        return System.Text.Encoding.ASCII.GetString(bytes);
    }
}
