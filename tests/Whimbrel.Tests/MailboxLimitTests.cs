using Whimbrel.Datagrams;
using Whimbrel.Engines;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

// EngineOptions.MailboxLimitBytes: behaviour at the limit. The test runs the loops, so the mailboxes stay full until it
// does.
public sealed class MailboxLimitTests : IDisposable
{
    private const int Limit = 16 * 1024;

    private static readonly MemoryEndPoint s_here = new("here");

    private readonly List<DiagnosticEvent> _notices = [];
    private readonly List<Told> _sessions = [];
    private readonly List<MemoryPeer> _peers = [];
    private readonly MemoryEngine _engine;

    public MailboxLimitTests() => _engine = new MemoryEngine(1, loops: 2, onDiagnosticEvent: _notices.Add,
        faults: MemoryFaults.None with { WireBytes = 1024 * 1024 }, mailboxLimitBytes: Limit);

    public void Dispose()
    {
        _engine.Run(_engine.DisposeAsync());
        Assert.Equal(0, _engine.ReadCounters().MailboxBytes);
        foreach (Loop loop in _engine.Loops)
            Assert.Equal((0, 0, 0, 0), (loop.Blocks.Outstanding, loop.StrandBlocks.Outstanding,
                loop.InboxItems.Outstanding, loop.ResidentCount));
    }

    private void Connect(int count, Scheduling scheduling = Scheduling.Inline,
        SlowConsumer policy = SlowConsumer.Disconnect)
    {
        Server server = new(
            new ServerOptions
            {
                Engine = _engine,
                EndPoint = s_here,
                Scheduling = scheduling,
                Limits = new() { SlowConsumer = policy }
            },
            () =>
            {
                Told session = new();
                _sessions.Add(session);
                return session;
            });
        _engine.Run(server.StartAsync());
        for (int i = 0; i < count; i++)
        {
            // One by one, so that both lists have the same order.
            _peers.Add(_engine.Connect(s_here));
            _engine.RunUntilIdle();
        }

        Assert.Equal(count, server.Sessions.Count);
    }

    [Theory]
    [InlineData(Scheduling.Inline, SlowConsumer.Disconnect)]
    [InlineData(Scheduling.Inline, SlowConsumer.Wait)]
    [InlineData(Scheduling.ThreadPool, SlowConsumer.DropNewest)]
    public void A_refused_sender_is_notified_once_when_there_is_space_and_no_session_is_disconnected(
        Scheduling scheduling, SlowConsumer policy)
    {
        Connect(4, scheduling, policy);
        Assert.Equal(SendResult.Queued, _sessions[0].Send(new byte[Limit - Mailbox.ItemBytes]));
        for (int i = 0; i < 100; i++)
        {
            Assert.Equal(SendResult.Full, _sessions[1].Send("x"u8));
            Assert.Equal(SendResult.Full, _sessions[2].Send("x"u8));
        }

        Assert.Equal(new EngineCounters(Limit, 200, 0, 0, 0, 0),
            _engine.ReadCounters() with { Turns = 0, EmptyTurns = 0, Completions = 0 });
        DiagnosticEvent notice = Assert.Single(_notices);
        Assert.Equal((DiagnosticEventKind.MailboxFull, "mailbox-full.md"), (notice.Kind, notice.Page));
        Assert.Contains("16 KiB", notice.Message, StringComparison.Ordinal);
        Assert.Equal(0, _sessions[1].BytesPending);
        _engine.RunUntilIdle();
        // The queue of the first one drained; the last one was not refused.
        Assert.Equal([1, 1, 1, 0], _sessions.Select(static s => s.Drains));
        Assert.All(_sessions, static s => Assert.True(s.IsConnected));
        Assert.Equal([Limit - Mailbox.ItemBytes, 0, 0, 0], _peers.Select(static p => p.Available));
        Assert.Equal(SendResult.Queued, _sessions[1].Send("now"u8));
        _engine.RunUntilIdle();
        Assert.Equal(3, _peers[1].Available);
        Assert.Equal(0, _engine.ReadCounters().MailboxBytes);
    }

    [Fact]
    public void A_message_to_several_is_refused_for_those_without_room_and_they_are_notified_of_space()
    {
        Connect(4);
        Session[] all = [.. _sessions];
        SendResult[] results = new SendResult[4];
        // There is space for two of four.
        int filler = Limit - Mailbox.ItemBytes - (2 * (100 + Mailbox.ItemBytes));
        Assert.Equal(SendResult.Queued, _sessions[0].Send(new byte[filler]));
        Assert.Equal(2, Session.SendToEach(new byte[100], all, results));
        Assert.Equal([SendResult.Queued, SendResult.Queued, SendResult.Full, SendResult.Full], results);
        Assert.Equal([filler + 100, 100, 0, 0], all.Select(static s => s.BytesPending));
        Assert.Equal(0, Session.SendToEach("x"u8, all, results));
        Assert.All(results, static r => Assert.Equal(SendResult.Full, r));
        _engine.RunUntilIdle();
        // The first two also when their queue drained.
        Assert.All(_sessions, static s => Assert.InRange(s.Drains, 1, 2));
        Assert.All(_sessions, static s => Assert.Equal((0L, true), (s.BytesPending, s.IsConnected)));
        Assert.Equal(4, Session.SendToEach("y"u8, all, results));
        _engine.RunUntilIdle();
        Assert.Equal([filler + 101, 101, 1, 1], _peers.Select(static p => p.Available));
        Assert.Equal(0, _engine.ReadCounters().MailboxBytes);
    }

    [Fact]
    public void Two_thousand_sessions_of_a_loop_that_does_not_run_are_sent_to_for_a_while_and_nothing_is_lost()
    {
        // 2 KiB to each in every frame of a game: this used to lose seven of ten messages. The default budget is far
        // above what a loop has to process.
        const int many = 2_000;
        const int frames = 5;
        List<DiagnosticEvent> notices = [];
        MemoryEngine engine = new(1, onDiagnosticEvent: notices.Add, faults: MemoryFaults.None);
        List<Told> sessions = [];
        Server server = new(new ServerOptions { Engine = engine, EndPoint = s_here, Socket = new() { Backlog = many } },
            () =>
            {
                Told session = new();
                sessions.Add(session);
                return session;
            });
        engine.Run(server.StartAsync());
        MemoryPeer[] peers = [.. Enumerable.Range(0, many).Select(_ => engine.Connect(s_here))];
        engine.RunUntilIdle();
        Assert.Equal(many, sessions.Count);
        byte[] message = new byte[2 * 1024];
        for (int frame = 0; frame < frames; frame++)
        {
            foreach (Told session in sessions) Assert.Equal(SendResult.Queued, session.Send(message));
            engine.Advance(TimeSpan.FromMilliseconds(16));
        }

        Assert.InRange(engine.ReadCounters().MailboxBytes, many * frames * message.Length, long.MaxValue);
        engine.RunUntilIdle();
        Assert.All(peers, p => Assert.Equal(frames * message.Length, p.Available));
        Assert.All(sessions, static s => Assert.Equal(0, s.BytesPending));
        Assert.Equal((0L, 0L), (engine.ReadCounters().MailboxBytes, engine.ReadCounters().SendsRefused));
        Assert.Empty(notices);
        engine.Run(server.StopAsync(TimeSpan.Zero));
        engine.Run(engine.DisposeAsync());
    }

    [Fact]
    public void A_sender_that_retries_when_notified_sends_everything()
    {
        const int Messages = 200;
        Connect(8);
        int[] left = new int[8];
        for (int i = 0; i < 8; i++)
        {
            int number = i;
            left[i] = Messages;
            _sessions[i].WhenDrained = () => _engine.Elsewhere(() => SendOn(number));
            SendOn(i);
        }

        _engine.RunUntilIdle();
        Assert.All(left, static n => Assert.Equal(0, n));
        Assert.All(_peers, static p => Assert.Equal(Messages * 1000, p.Available));
        Assert.True(_engine.ReadCounters().SendsRefused > 0);

        void SendOn(int i)
        {
            while (left[i] > 0 && _sessions[i].Send(new byte[1000]) == SendResult.Queued) left[i]--;
        }
    }

    [Fact]
    public async Task SendAsync_waits_without_a_copy_and_is_no_refusal()
    {
        Connect(2);
        _sessions[0].Send(new byte[Limit - Mailbox.ItemBytes]);
        byte[] memory = [1, 2, 3];
        Task<SendResult> waiting = _sessions[1].SendAsync(memory).AsTask();
        Assert.False(waiting.IsCompleted);
        Assert.Equal(new EngineCounters(Limit, 0, 0, 0, 0, 0),
            _engine.ReadCounters() with { Turns = 0, EmptyTurns = 0, Completions = 0 });
        memory[0] = 9; // the message has not been read yet
        _engine.RunUntilIdle();
        Assert.True(waiting.IsCompleted);
        Assert.Equal(SendResult.Queued, await waiting);
        byte[] got = new byte[3];
        _peers[1].Read(got);
        Assert.Equal([9, 2, 3], got);
        Assert.Empty(_notices);
    }

    [Fact]
    public void A_callback_on_the_pool_is_refused_whole_sends_and_keeps_what_it_gathered_in_order()
    {
        Connect(2, Scheduling.ThreadPool);
        List<SendResult> results = [];
        _sessions[1].WhenReceived = session =>
        {
            results.Add(session.Send("first|"u8));
            _sessions[0].Send(new byte[Limit - 6 - (2 * Mailbox.ItemBytes)]); // fills the budget
            results.Add(session.Send("refused|"u8));
            results.Add(session.Send(new byte[40_000]));
            results.Add(session.Room(10).IsEmpty ? SendResult.Full : SendResult.Queued);
        };
        _peers[1].Write([1]);
        _engine.RunUntilIdle();
        Assert.Equal([SendResult.Queued, SendResult.Full, SendResult.Full, SendResult.Full], results);
        Assert.Equal(6, _peers[1].Available);
        Assert.Equal(3, _engine.ReadCounters().SendsRefused);
        Assert.Equal(0, _sessions[1].BytesPending);
        Assert.True(_sessions[1].Drains > 0);
    }

    // A cancelled reservation must not leave another caller waiting for it.
    [Fact]
    public async Task A_refused_send_does_not_delay_a_close_or_a_SendAsync_that_saw_it_pending()
    {
        Connect(3);
        _sessions[0].Send(new byte[Limit - Mailbox.ItemBytes]);
        Assert.Equal(SendResult.Full, _sessions[1].Send("x"u8));
        Task<SendResult> waiting = _sessions[1].SendAsync(new byte[5]).AsTask();
        _sessions[1].Close();
        Assert.Equal(SendResult.Full, _sessions[2].Send("x"u8));
        _sessions[2].Close();
        _engine.RunUntilIdle();
        Assert.True(waiting.IsCompleted);
        Assert.Equal(SendResult.Queued, await waiting);
        for (int i = 1; i < 3; i++) _peers[i].ShutdownSend();
        _engine.RunUntilIdle();
        Assert.True(_sessions[1].HasEnded && _sessions[2].HasEnded);
    }

    [Fact]
    public void Datagrams_of_other_threads_are_charged_too_and_their_handler_is_notified()
    {
        DrainedHandler handler = new();
        DatagramSocket socket = new(new DatagramOptions
        {
            Engine = _engine,
            EndPoint = new System.Net.IPEndPoint(System.Net.IPAddress.Loopback, 0),
            Loops = 1
        }, () => handler);
        _engine.Run(socket.StartAsync());
        DatagramPeer peer = new(socket.EndPoint!);
        int taken = 0;
        while (socket.Send(new byte[1000], peer) == SendResult.Queued) taken++;
        Assert.InRange(taken, 10, 15);
        Assert.Equal(1, _engine.ReadCounters().SendsRefused);
        Assert.Equal(0, handler.Drains);
        _engine.RunUntilIdle();
        Assert.Equal(1, handler.Drains);
        Assert.Equal(SendResult.Queued, socket.Send(new byte[1000], peer));
        _engine.Run(socket.StopAsync());
    }

    [Fact]
    public void An_engine_that_stops_while_its_mailboxes_are_full_gives_all_back()
    {
        Connect(3);
        _sessions[0].Send(new byte[Limit - Mailbox.ItemBytes]);
        Assert.Equal(SendResult.Full, _sessions[1].Send("x"u8));
        Task<SendResult> waiting = _sessions[2].SendAsync(new byte[5]).AsTask();
        _engine.Run(_engine.StopAsync());
        Assert.True(waiting.IsCompleted);
        Assert.Equal(SendResult.Closed, _sessions[1].Send("x"u8));
        Assert.Equal(0, _engine.ReadCounters().MailboxBytes);
    }

    [Theory]
    [InlineData(-1)]
    [InlineData(1)]
    [InlineData(4095)]
    [InlineData((1L << 40) + 1)]
    public void A_limit_that_makes_no_sense_is_refused_with_the_options(long limit) =>
        Assert.Contains("MailboxLimitBytes",
            Assert.Throws<ArgumentException>(() => new Engine(new EngineOptions { MailboxLimitBytes = limit })).Message,
            StringComparison.Ordinal);

    [Fact]
    public void The_default_is_a_part_of_the_memory()
    {
        MailboxBudget budget = new(_engine, 0);
        Assert.InRange(budget.Limit, 64L * 1024 * 1024, 1024L * 1024 * 1024);
    }

    private sealed class DrainedHandler : DatagramHandler
    {
        internal int Drains { get; private set; }

        protected override void OnDrained() => Drains++;
    }

    private sealed class Told : Session
    {
        internal int Drains { get; private set; }

        internal bool HasEnded { get; private set; }

        internal Action? WhenDrained { get; set; }

        internal Action<Told>? WhenReceived { get; set; }

        internal Span<byte> Room(int count) => Reserve(count);

        protected override void OnReceived(ReadOnlySpan<byte> data) => WhenReceived?.Invoke(this);

        protected override void OnDrained()
        {
            Drains++;
            WhenDrained?.Invoke();
        }

        protected override void OnDisconnected(CloseReason reason) => HasEnded = true;
    }
}
