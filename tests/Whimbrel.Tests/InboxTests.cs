using System.Buffers;
using System.Buffers.Binary;
using Whimbrel.Engines;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

// A thread sends to the inboxes of several connections on two loops, by every form, between joins, broadcasts and
// posts. Meanwhile the loops send too, connections are reset, and their objects serve new connections. A model says
// what each peer reads. The caller is not a loop's thread; the loops run between its calls, one step at a time.
public sealed class InboxTests
{
    private const int Places = 5;
    private const byte OfCaller = 1;
    private const byte OfCallback = 2;

    [Fact]
    public void Random_calls_of_another_thread_take_effect_in_their_order_and_reach_no_later_tenant()
    {
        foreach (int seed in Seeds.Some(120)) new Story(seed).Tell();
    }

    // A loop takes an inbox from the list while others list it again, and ends in the middle: each entry is run or
    // refused, and none is lost.
    [Fact]
    public async Task Threads_that_append_while_the_loop_moves_and_ends_lose_nothing()
    {
        const int threads = 3;
        foreach (int seed in Seeds.Some(6))
        {
            await using Engine engine = new(new EngineOptions { Loops = 1 });
            engine.Start();
            Loop loop = engine.GetLoop(0);
            Connections.Connection[] connections = [new(loop), new(loop), new(loop)];
            int disposed = 0;
            int taken = 0;
            Thread[] senders = [.. Enumerable.Range(0, threads).Select(number => new Thread(() =>
            {
                Random random = new(seed + number);
                for (int i = 0; i < 20_000; i++)
                {
                    Connections.Connection connection = connections[random.Next(connections.Length)];
                    if (random.Next(3) > 0)
                    {
                        loop.Mailbox.PostSend(connection, 1, new byte[random.Next(3000)], default);
                        continue;
                    }

                    if (loop.Mailbox.PostOwned(connection, 1, default,
                        new Counted(() => Interlocked.Increment(ref disposed)), 0, 0) == SendResult.Queued)
                        Interlocked.Increment(ref taken);
                    if (random.Next(100) == 0) loop.Post(static () => { });
                }
            }))];
            foreach (Thread sender in senders) sender.Start();
            // tidy: waits because the end is to come somewhere in the middle
            await Task.Delay(seed % 20, TestContext.Current.CancellationToken);
            await engine.StopAsync();
            foreach (Thread sender in senders) sender.Join();
            Assert.Equal(taken, disposed);
            Assert.Equal((0, 0L), (loop.InboxItems.Outstanding, engine.ReadCounters().MailboxBytes));
        }
    }

    [Fact]
    public void A_direct_send_takes_no_entry_that_is_listed_and_no_late_bytes_are_accepted()
    {
        MemoryEngine engine = new(1);
        Mailbox mailbox = engine.GetLoop(0).Mailbox;
        Connections.Connection connection = new(engine.GetLoop(0));
        SendInbox inbox = connection.SendInbox;
        Assert.Equal(SendResult.Queued, mailbox.PostSend(connection, 1, "12"u8, "3"u8, isHeld: true));
        Assert.Equal(SendResult.Queued, mailbox.PostSend(connection, 1, new byte[2000], default, isHeld: true));
        Assert.False(mailbox.Any);
        // Too many entries, or the caller may not send.
        Assert.Equal(0, inbox.TryTakeHeld(1, 0, static (_, _) => true, out _));
        Assert.Equal(0, inbox.TryTakeHeld(16, 0, static (_, bytes) => bytes != 2003, out _));
        Assert.Equal(2003, inbox.TryTakeHeld(16, 0, static (_, bytes) => bytes == 2003, out InboxItem? first));
        Assert.False(inbox.Any);
        for (InboxItem? item = first, next; item is not null; item = next)
        {
            next = item.Next;
            item.Return();
        }

        // A late callback of another connection of the same object.
        long charged = engine.ReadCounters().MailboxBytes;
        Assert.Equal(SendResult.Closed, mailbox.PostSend(connection, 2, "old"u8, default, isHeld: true));
        Assert.Equal((false, charged), (inbox.Any, engine.ReadCounters().MailboxBytes));
        Assert.False(mailbox.PostHeld(connection, wakesByPool: true));
        // Listed by another thread: the loop moves it.
        Assert.Equal(SendResult.Queued, mailbox.PostSend(connection, 1, "1"u8, default, isHeld: true));
        Assert.Equal(SendResult.Queued, mailbox.PostSend(connection, 1, "2"u8, default));
        Assert.Equal(0, inbox.TryTakeHeld(16, 0, static (_, _) => true, out _));
        Assert.True(mailbox.Any);
        mailbox.Drain();
        Assert.Equal(0, engine.GetLoop(0).InboxItems.Outstanding);
    }

    // The thread between the reservation and the append is this one: it stops there until the connection has ended.
    [Fact]
    public void BytesLost_counts_accepted_bytes_only_and_a_send_that_comes_too_late_is_rejected()
    {
        MemoryEngine engine = new(1, faults: MemoryFaults.None);
        MemoryEndPoint here = new("here");
        CloseReason? reason = null;
        Script session = new() { WhenDisconnected = (_, r) => reason = r };
        Server server = new(new ServerOptions { Engine = engine, EndPoint = here }, () => session);
        engine.Run(server.StartAsync());
        engine.Connect(here);
        engine.RunUntilIdle();
        Connections.Connection connection = session.Connection!;
        uint generation = connection.Generation;
        Mailbox mailbox = connection.Loop.Mailbox;
        Assert.Equal(SendResult.Queued, connection.Outbound.TryReserveForeign(100, generation));
        Assert.Equal(SendResult.Queued, session.Send("12345"u8));
        // Faster than sends, so the message is lost.
        session.Abort();
        engine.RunUntilIdle();
        Assert.Equal(5, reason?.BytesLost);
        Assert.Equal(SendResult.Closed, mailbox.PostSend(connection, generation, new byte[100], default));
        connection.Outbound.TakeBackForeign(100, generation);
        engine.RunUntilIdle();
        Assert.Equal((0, 0L), (connection.Loop.InboxItems.Outstanding, engine.ReadCounters().MailboxBytes));
        engine.Run(server.StopAsync(TimeSpan.Zero));
        engine.Run(engine.DisposeAsync());
    }

    private sealed class Counted(Action disposed) : IMemoryOwner<byte>
    {
        public Memory<byte> Memory => default;

        public void Dispose() => disposed();
    }

    private sealed class Owned(byte[] bytes) : IMemoryOwner<byte>
    {
        public Memory<byte> Memory => bytes;

        public void Dispose()
        {
        }
    }

    private sealed class Place
    {
        internal required Script Session { get; init; }

        internal required MemoryPeer Peer { get; init; }

        internal bool IsMember { get; set; }

        /// <summary>
        /// The messages that its peer must read. Messages of callbacks are a list of their own where they have no order
        /// with the caller's.
        /// </summary>
        internal List<byte[]> Expected { get; } = [];

        internal List<byte> Got { get; } = [];
    }

    private sealed class Story(int seed)
    {
        private readonly Random _random = new(seed);
        private readonly MemoryEngine _engine = new(seed, loops: 2,
            faults: MemoryFaults.None with { WireBytes = 1024 * 1024 });
        private readonly SessionGroup _group = new();
        private readonly Place?[] _places = new Place?[Places];
        private readonly List<Script> _old = [];
        private readonly Queue<Script> _made = new();
        private int _count;

        // With groups a callback does not move messages that follow a broadcast, and so may send before them.
        private bool UsesGroup => seed % 2 == 1;

        internal void Tell()
        {
            MemoryEndPoint here = new("here");
            Server server = new(
                new ServerOptions
                {
                    Engine = _engine,
                    EndPoint = here,
                    Limits = new() { SendBytes = 64 * 1024 * 1024 }
                },
                () =>
                {
                    Script session = new() { WhenReceived = (s, _) => SendInCallback(s) };
                    _made.Enqueue(session);
                    return session;
                });
            _engine.Run(server.StartAsync());
            for (int step = 0; step < 300; step++)
            {
                int at = _random.Next(Places);
                if (_places[at] is not { } place)
                {
                    _engine.RunUntilIdle();
                    MemoryPeer peer = _engine.Connect(here);
                    _engine.RunUntilIdle();
                    _places[at] = new Place { Session = _made.Dequeue(), Peer = peer };
                    continue;
                }

                Step(at, place);
                // Nothing of them may arrive anywhere.
                if (_old.Count > 0 && _random.Next(10) == 0) _old[_random.Next(_old.Count)].Send(Message(OfCaller));
                for (int turns = _random.Next(3) == 0 ? _random.Next(12) : 0; turns > 0; turns--) _engine.RunOne();
                Read();
            }

            foreach (Place? place in _places) place?.Session.Close();
            do
            {
                _engine.RunUntilIdle();
            }
            while (Read());
            foreach (Place? place in _places)
            {
                if (place is not null) Judge(place);
            }

            _engine.Run(server.StopAsync(TimeSpan.Zero));
            _engine.Run(_engine.DisposeAsync());
            Assert.Equal(0, _engine.ReadCounters().MailboxBytes);
            foreach (Loop loop in _engine.Loops)
                Assert.Equal((0, 0), (loop.InboxItems.Outstanding, loop.Blocks.Outstanding));
        }

        private void Step(int at, Place place)
        {
            byte[] message = Message(OfCaller);
            switch (_random.Next(UsesGroup ? 12 : 8))
            {
                case 0 or 1:
                    Assert.Equal(SendResult.Queued, place.Session.Send(message));
                    place.Expected.Add(message);
                    break;
                case 2:
                    int cut = _random.Next(message.Length);
                    Assert.Equal(SendResult.Queued,
                        place.Session.Send(Outgoing.Pieces(message.AsSpan(0, cut), message.AsSpan(cut))));
                    place.Expected.Add(message);
                    break;
                case 3:
                    int head = _random.Next(message.Length);
                    Assert.Equal(SendResult.Queued, place.Session.Send(Outgoing
                        .Owned(new Owned(message), head, message.Length - head).WithHead(message.AsSpan(0, head))));
                    place.Expected.Add(message);
                    break;
                case 4:
                    Place[] some = [.. _places.OfType<Place>().Where(_ => _random.Next(2) == 0)];
                    Assert.Equal(some.Length, Session.SendToEach(message, [.. some.Select(static p => p.Session)]));
                    foreach (Place each in some) each.Expected.Add(message);
                    break;
                case 5:
                    place.Peer.Write([1]); // its callback sends
                    break;
                case 6:
                    Assert.True(place.Session.Post(() =>
                    {
                        Assert.Equal(SendResult.Queued, place.Session.Send(message));
                        place.Expected.Add(message);
                    }));
                    // What the caller sends after it may leave before that, where a callback sends in between.
                    _engine.RunUntilIdle();
                    break;
                case 7 when _random.Next(4) == 0:
                    place.Peer.Reset();
                    _engine.RunUntilIdle();
                    _old.Add(place.Session);
                    _places[at] = null;
                    break;
                case 8 or 9:
                    Assert.Equal(SendResult.Queued, _group.Broadcast(message));
                    foreach (Place? each in _places)
                    {
                        if (each is { IsMember: true }) each.Expected.Add(message);
                    }

                    break;
                case 10:
                    _group.Join(place.Session);
                    place.IsMember = true;
                    break;
                case 11:
                    _group.Leave(place.Session);
                    place.IsMember = false;
                    break;
            }
        }

        private void SendInCallback(Script session)
        {
            if (Array.Find(_places, p => ReferenceEquals(p?.Session, session)) is not { } place) return;
            byte[] message = Message(OfCallback);
            if (session.Send(message) == SendResult.Queued) place.Expected.Add(message);
        }

        /// <summary>Sender, length and number; then bytes by that number.</summary>
        private byte[] Message(byte sender)
        {
            byte[] message = new byte[_random.Next(6) switch { 0 => 10_000, 1 => 70_000, _ => 9 } + _random.Next(200)];
            message[0] = sender;
            BinaryPrimitives.WriteInt32LittleEndian(message.AsSpan(1), message.Length);
            BinaryPrimitives.WriteInt32LittleEndian(message.AsSpan(5), ++_count);
            message.AsSpan(9).Fill((byte)_count);
            return message;
        }

        private bool Read()
        {
            bool any = false;
            byte[] buffer = new byte[64 * 1024];
            foreach (Place? place in _places)
            {
                for (int count; place is not null && (count = place.Peer.Read(buffer)) > 0; any = true)
                    place.Got.AddRange(buffer.AsSpan(0, count));
            }

            return any;
        }

        private void Judge(Place place)
        {
            byte[] got = [.. place.Got];
            List<byte[]> messages = [];
            for (int at = 0; at < got.Length;)
            {
                int length = BinaryPrimitives.ReadInt32LittleEndian(got.AsSpan(at + 1));
                messages.Add(got[at..(at + length)]);
                at += length;
            }

            if (!UsesGroup)
            {
                Same(place.Expected, messages);
                return;
            }

            foreach (byte sender in (byte[])[OfCaller, OfCallback])
                Same([.. place.Expected.Where(m => m[0] == sender)], [.. messages.Where(m => m[0] == sender)]);
        }

        private static void Same(List<byte[]> expected, List<byte[]> got)
        {
            Assert.Equal(expected.Select(Number), got.Select(Number));
            for (int i = 0; i < got.Count; i++) Assert.Equal(expected[i], got[i]);
        }

        private static int Number(byte[] message) => BinaryPrimitives.ReadInt32LittleEndian(message.AsSpan(5));
    }
}
