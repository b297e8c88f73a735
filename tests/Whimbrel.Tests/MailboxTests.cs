using System.Buffers;
using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Engines;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

public sealed class MailboxTests
{
    private const uint Nobody = 1; // of a connection that was not begun
    private const int NarrowBytes = 4096;

    private readonly Loop _loop;
    private readonly Mailbox _mailbox;
    private readonly Connection _connection;
    private readonly MemoryEngine _narrow = new(1, loops: 2, mailboxLimitBytes: NarrowBytes);

    public MailboxTests()
    {
        _loop = new MemoryEngine(1).GetLoop(0);
        _mailbox = new Mailbox(_loop);
        // It was not begun: what is processed for it is dropped.
        _connection = new Connection(_loop);
    }

    [Fact]
    public void Control_is_drained_before_data_and_each_lane_in_order()
    {
        List<string> order = [];
        for (int i = 0; i < 100; i++)
        {
            int number = i;
            _mailbox.PostOwned(_connection, Nobody, default, new Noted(() => order.Add($"data {number}")), 0, 0);
            _mailbox.PostControl((_, _, _, value) => order.Add($"control {value}"), value: i);
        }

        Assert.True(_mailbox.Any);
        Assert.Empty(order);
        _mailbox.Drain();
        Assert.False(_mailbox.Any);
        Assert.Equal([.. Enumerable.Range(0, 100).Select(i => $"control {i}"),
            .. Enumerable.Range(0, 100).Select(i => $"data {i}")], order);
    }

    [Fact]
    public void An_item_posted_while_draining_waits_for_the_next_drain()
    {
        int runs = 0;
        _mailbox.PostControl((_, _, _, _) => _mailbox.PostControl((_, _, _, _) => runs++));
        _mailbox.Drain();
        Assert.Equal(0, runs);
        _mailbox.Drain();
        Assert.Equal(1, runs);
    }

    [Fact]
    public void Sends_of_other_threads_are_taken_up_to_the_limit_and_refused_one_byte_past_it()
    {
        Connection connection = new(_narrow.GetLoop(0));
        Mailbox mailbox = _narrow.GetLoop(0).Mailbox;
        byte[] half = new byte[(NarrowBytes / 2) - Mailbox.ItemBytes];
        Assert.Equal(SendResult.Queued, mailbox.PostSend(connection, Nobody, half, default));
        Assert.Equal(SendResult.Queued, mailbox.PostSend(connection, Nobody, half.AsSpan(1), [1]));
        Assert.Equal(SendResult.Full, mailbox.PostSend(connection, Nobody, [1], default));
        Assert.Equal(SendResult.Full, mailbox.PostOwned(connection, Nobody, default,
            new Noted(static () => Assert.Fail("it stays the caller's")), 0, 0));
        Assert.Equal(new EngineCounters(NarrowBytes, 2, 0, 0, 0, 0), _narrow.ReadCounters());
        // Data for another loop is refused; control and items without bytes have no limit.
        Assert.Equal(SendResult.Full,
            _narrow.GetLoop(1).Mailbox.PostSend(new Connection(_narrow.GetLoop(1)), Nobody, [1], default));
        Assert.True(mailbox.PostControl(static (_, _, _, _) => { }));
        Assert.True(mailbox.PostInOrder(InboxKind.Close, connection, Nobody));
        mailbox.Drain();
        Assert.Equal(new EngineCounters(0, 3, 0, 0, 0, 0), _narrow.ReadCounters());
        Assert.Equal(SendResult.Queued, mailbox.PostSend(connection, Nobody, [1], default));
    }

    [Fact]
    public void One_send_above_the_limit_is_taken_when_nothing_else_is_on_its_way()
    {
        Connection connection = new(_narrow.GetLoop(0));
        Mailbox mailbox = _narrow.GetLoop(0).Mailbox;
        Assert.Equal(SendResult.Queued, mailbox.PostSend(connection, Nobody, new byte[NarrowBytes + 1], default));
        Assert.Equal(SendResult.Full,
            _narrow.GetLoop(1).Mailbox.PostSend(new Connection(_narrow.GetLoop(1)), Nobody, [1], default));
        mailbox.Drain();
        Assert.Equal(SendResult.Queued, mailbox.PostSend(connection, Nobody, [1], default));
        Assert.Equal(SendResult.Full, mailbox.PostSend(connection, Nobody, new byte[NarrowBytes], default));
    }

    [Fact]
    public void Empty_sends_leave_nothing_behind()
    {
        Connection connection = new(_narrow.GetLoop(0));
        Mailbox mailbox = _narrow.GetLoop(0).Mailbox;
        for (int i = 0; i < 1000; i++)
            Assert.Equal(SendResult.Queued, mailbox.PostSend(connection, Nobody, default, default));
        Assert.Equal((false, 0, 0L),
            (mailbox.Any, _narrow.GetLoop(0).InboxItems.Outstanding, _narrow.ReadCounters().MailboxBytes));
    }

    [Fact]
    public void Memory_that_is_passed_and_what_the_pool_sends_are_charged()
    {
        Connection connection = new(_narrow.GetLoop(0));
        Mailbox mailbox = _narrow.GetLoop(0).Mailbox;
        Assert.True(mailbox.HasRoomFor(connection, Nobody));
        // After a callback that reported space, the room that it has written into is not refused.
        for (int i = 0; i < 2; i++)
            Assert.Equal(SendResult.Queued,
                mailbox.PostSend(connection, Nobody, new byte[NarrowBytes], default, isHeld: true, isSure: true));
        Assert.False(mailbox.Any);
        mailbox.PostHeld(connection, wakesByPool: true);
        Assert.True(mailbox.Any);
        Assert.Equal(2 * (NarrowBytes + Mailbox.ItemBytes), _narrow.ReadCounters().MailboxBytes);
        Assert.False(mailbox.HasRoomFor(connection, Nobody));
        Assert.Equal(SendResult.Full,
            mailbox.PostOwned(connection, Nobody, default, new Noted(static () => { }), 0, 1));
        Assert.Equal(2, _narrow.ReadCounters().SendsRefused);
        mailbox.Drain();
        Assert.Equal(0, _narrow.ReadCounters().MailboxBytes);
        Assert.True(mailbox.HasRoomFor(connection, Nobody));
    }

    [Fact]
    public void Posts_of_pool_callbacks_wake_the_loop_once_and_after_the_queued_work_of_the_pool()
    {
        MemoryEngine engine = new(1);
        Mailbox mailbox = new(engine.GetLoop(0));
        List<long> wakes = [];
        for (int i = 0; i < 3; i++) engine.Offload(_ => Post(), null);
        Assert.True(mailbox.TrySleep());
        engine.RunUntilIdle();
        Assert.Equal(0, wakes[0]);
        Assert.Equal((3, 1), (wakes.Count, mailbox.Wakes));
        mailbox.Drain();
        // Outside of it, and on threads that are not pool threads, immediately.
        Assert.True(mailbox.TrySleep());
        Post();
        Assert.Equal(2, wakes[^1]);
        mailbox.Drain();
        Assert.True(mailbox.TrySleep());
        engine.Offload(
            _ =>
            {
                using (new WakeUpBatch(engine)) wakes.Clear();
                mailbox.PostSend(_connection, Nobody, [1], default);
                wakes.Add(mailbox.Wakes);
            },
            null);
        engine.RunUntilIdle();
        Assert.Equal([3], wakes);

        void Post()
        {
            using (new WakeUpBatch(engine)) mailbox.PostSend(_connection, Nobody, [1], default);
            wakes.Add(mailbox.Wakes);
        }
    }

    [Fact]
    public void A_lingering_wake_runs_after_posts_of_further_callbacks() => OnPool((engine, mailbox) =>
    {
        for (int i = 0; i < 40; i++)
        {
            Gather(engine, mailbox);
            // The pool runs it before the two callbacks that send the next response.
            RunWake(mailbox);
            RunWake(mailbox);
            Assert.Equal(0, mailbox.Wakes);
        }

        RunWake(mailbox);
        Assert.Equal(1, mailbox.Wakes);
        RunWake(mailbox);
        Assert.Equal(1, mailbox.Wakes);
    });

    [Fact]
    public void A_wake_lingers_a_limited_number_of_times() => OnPool((engine, mailbox) =>
    {
        for (int wakes = 0; wakes < 3; wakes++)
        {
            int often = 0;
            for (; mailbox.Wakes == wakes && often < 1000; often++)
            {
                Gather(engine, mailbox);
                RunWake(mailbox);
            }

            Assert.Equal(129, often);
            mailbox.Drain();
            Assert.True(mailbox.TrySleep());
        }
    });

    [Fact]
    public void A_wake_lingers_only_if_the_caller_permits_it() => OnPool((engine, mailbox) =>
    {
        Gather(engine, mailbox);
        Gather(engine, mailbox, mayLinger: false);
        RunWake(mailbox);
        Assert.Equal(1, mailbox.Wakes);
        mailbox.Drain();
        Assert.True(mailbox.TrySleep());
        // The wake does not give it to them either if another connection asked first.
        Gather(engine, mailbox);
        RunWake(mailbox);
        RunWake(mailbox);
        RunWake(mailbox);
        Assert.Equal(2, mailbox.Wakes);
        mailbox.Drain();
        Assert.True(mailbox.TrySleep());
        Gather(engine, mailbox, mayLinger: false);
        RunWake(mailbox);
        Assert.Equal(3, mailbox.Wakes);
    });

    [Fact]
    public void A_wake_ends_when_the_loop_is_awake_and_a_sender_waiting_for_space_wakes_it_at_once() =>
        OnPool((engine, mailbox) =>
        {
            Gather(engine, mailbox);
            mailbox.PostControl(static (_, _, _, _) => { });
            Assert.Equal(1, mailbox.Wakes);
            RunWake(mailbox);
            Assert.False(mailbox.WakeIfLate());
            mailbox.Drain();
            Assert.True(mailbox.TrySleep());
            using WakeUpBatch gathered = new(engine, mayLinger: true);
            mailbox.PostSend(_connection, Nobody, [1], default);
            Assert.Equal(1, mailbox.Wakes);
            mailbox.WakeIfSleeping(atOnce: true);
            Assert.Equal(2, mailbox.Wakes);
        });

    private static void OnPool(Action<MemoryEngine, Mailbox> test)
    {
        MemoryEngine engine = new(1);
        Mailbox mailbox = new(engine.GetLoop(0));
        Exception? failure = null;
        Assert.True(mailbox.TrySleep());
        engine.Offload(_ => failure = Record.Exception(() => test(engine, mailbox)), null);
        engine.RunUntilIdle();
        if (failure is not null) throw failure;
    }

    private void Gather(MemoryEngine engine, Mailbox mailbox, bool mayLinger = true)
    {
        using (new WakeUpBatch(engine, mayLinger)) mailbox.PostSend(_connection, Nobody, [1], default);
    }

    private static DataItem Nothing() =>
        new() { Kind = DataKind.Post, Payload = (ControlAction)(static (_, _, _, _) => { }) };

    private static void RunWake(Mailbox mailbox) => ((IThreadPoolWorkItem)mailbox).Execute();

    [Fact]
    public void A_wake_that_the_pool_does_not_come_to_is_done_by_the_watchdog_at_its_second_look()
    {
        MemoryEngine engine = new(1);
        Mailbox mailbox = new(engine.GetLoop(0));
        Assert.False(mailbox.WakeIfLate());
        Assert.True(mailbox.TrySleep());
        Assert.Equal(SendResult.Queued, mailbox.PostSend(_connection, Nobody, [1], default, isHeld: true));
        mailbox.PostHeld(_connection, wakesByPool: true);
        // It may have been queued just now; from then on the watchdog checks often.
        Assert.True(mailbox.WakeIfLate());
        Assert.Equal(0, mailbox.Wakes);
        Assert.True(mailbox.WakeIfLate());
        Assert.Equal(1, mailbox.Wakes);
        // The pool runs it after all.
        engine.RunUntilIdle();
        Assert.Equal(1, mailbox.Wakes);
        Assert.False(mailbox.WakeIfLate());
        mailbox.Drain();
        Assert.True(mailbox.TrySleep());
        Assert.Equal(SendResult.Queued, mailbox.PostSend(_connection, Nobody, [1], default, isHeld: true));
        mailbox.PostHeld(_connection, wakesByPool: true);
        Assert.True(mailbox.WakeIfLate());
        Assert.Equal(1, mailbox.Wakes);
    }

    [Fact]
    public void A_burst_keeps_no_memory_and_is_processed_in_parts()
    {
        for (int i = 0; i < 40_000; i++)
            Assert.Equal(SendResult.Queued, _mailbox.PostSend(_connection, Nobody, new byte[1000], default));
        Assert.InRange(_loop.InboxItems.OutstandingBytes, 40_000_000, 50_000_000);
        int drains = 0;
        int posted = 0;
        for (; _mailbox.Any; drains++)
        {
            // Control does not wait for data.
            _mailbox.PostControl((_, _, _, _) => posted++);
            _mailbox.Drain();
            Assert.Equal(drains + 1, posted);
        }

        Assert.InRange(drains, 40, 45);
        GroupShard shard = new SessionGroup("g").ShardOf(_loop);
        for (int i = 0; i < 20_000; i++)
        {
            Assert.True(_mailbox.Post(Nothing()));
            Assert.True(_mailbox.PostBroadcast(shard, new BroadcastData(new byte[1000]), null));
        }

        Assert.InRange(_mailbox.Capacity.Bytes, 20_000_000, 50_000_000);
        while (_mailbox.Any) _mailbox.Drain();
        for (int i = 0; i < 2; i++)
        {
            _mailbox.PostSend(_connection, Nobody, [1], default);
            _mailbox.Drain();
        }

        Assert.Equal(0, _loop.InboxItems.Outstanding);
        Assert.InRange(_mailbox.Capacity.Bytes, 1, 2 * ByteArena.KeptBytes);
        Assert.InRange(_mailbox.Capacity.Items, 1, 2 * DataItems.SegmentItems * DataItems.SegmentsKept);
        Assert.Equal(0, _loop.Engine.ReadCounters().MailboxBytes);
    }

    [Fact]
    public void An_item_posted_while_a_burst_is_drained_follows_it_and_is_not_lost()
    {
        List<string> order = [];
        for (int i = 0; i < 3; i++)
        {
            string name = $"first {i}";
            _mailbox.PostOwned(_connection, Nobody, default, new Noted(() => order.Add(name)), 0, Mailbox.DrainBytes);
        }

        _mailbox.Drain();
        _mailbox.PostOwned(_connection, Nobody, default, new Noted(() => order.Add("second")), 0, 1);
        Assert.Equal(["first 0"], order);
        while (_mailbox.Any) _mailbox.Drain();
        Assert.Equal(["first 0", "first 1", "first 2", "second"], order);
    }

    [Fact]
    public void A_mailbox_that_closes_in_the_middle_of_a_burst_runs_all_of_it()
    {
        int disposed = 0;
        for (int i = 0; i < 5; i++)
            _mailbox.PostOwned(_connection, Nobody, default, new Noted(() => disposed++), 0, Mailbox.DrainBytes);
        _mailbox.Drain();
        _mailbox.PostOwned(_connection, Nobody, default, new Noted(() => disposed++), 0, 1);
        _mailbox.Close();
        Assert.Equal(6, disposed);
        Assert.Equal(0, _loop.Engine.ReadCounters().MailboxBytes);
    }

    [Fact]
    public void Messages_to_one_connection_join_and_a_large_one_lies_in_several_blocks()
    {
        InboxItems items = _loop.InboxItems;
        for (int i = 0; i < 10; i++)
            Assert.Equal(SendResult.Queued, _mailbox.PostSend(_connection, Nobody, new byte[100], default));
        Assert.Equal((1, (long)InboxItem.SmallCapacity), (items.Outstanding, items.OutstandingBytes));
        // A message that does not fit, and one after an item of the mailbox, are each an entry of their own. One of
        // another connection of the same object is rejected.
        Assert.Equal(SendResult.Queued,
            _mailbox.PostSend(_connection, Nobody, new byte[InboxItem.Capacity], new byte[1]));
        Assert.Equal(3, items.Outstanding);
        Assert.Equal(SendResult.Queued, _mailbox.PostSend(_connection, Nobody, [1], default));
        Assert.Equal(3, items.Outstanding);
        Assert.Equal(SendResult.Closed, _mailbox.PostSend(_connection, Nobody + 1, [1], default));
        Assert.Equal(3, items.Outstanding);
        Assert.True(_mailbox.Post(Nothing()));
        Assert.Equal(SendResult.Queued, _mailbox.PostSend(_connection, Nobody, [1], default));
        Assert.Equal(4, items.Outstanding);
        while (_mailbox.Any) _mailbox.Drain();
        Assert.Equal((0, 0L), (items.Outstanding, _loop.Engine.ReadCounters().MailboxBytes));
        _mailbox.Close();
        Assert.Equal(SendResult.Closed, _mailbox.PostSend(_connection, Nobody, [1], default));
        Assert.Equal((0, 0L), (items.Outstanding, _loop.Engine.ReadCounters().MailboxBytes));
    }

    [Fact]
    public void A_broadcast_does_not_join_one_that_a_send_came_after()
    {
        GroupShard shard = new SessionGroup("g").ShardOf(_loop);
        Assert.True(_mailbox.PostBroadcast(shard, new BroadcastData(new byte[1]), null));
        Assert.True(_mailbox.PostBroadcast(shard, new BroadcastData(new byte[1]), null));
        Assert.Equal(1, _mailbox.WaitingItems);
        _mailbox.PostSend(_connection, Nobody, [1], default);
        Assert.True(_mailbox.PostBroadcast(shard, new BroadcastData(new byte[1]), null));
        Assert.Equal(2, _mailbox.WaitingItems);
    }

    [Fact]
    public void Broadcasts_of_other_threads_have_room_for_a_lane_and_not_for_one_byte_more()
    {
        GroupShard shard = new SessionGroup("g").ShardOf(_loop);
        Assert.True(_mailbox.TryReserveRun(Mailbox.RunLimitBytes - 1 - (2 * Mailbox.MessageBytes)));
        Assert.True(_mailbox.TryReserveRun(1));
        Assert.False(_mailbox.TryReserveRun(1));
        Assert.True(_mailbox.PostBroadcast(shard,
            new BroadcastData(new byte[Mailbox.RunLimitBytes - 1 - (2 * Mailbox.MessageBytes)]), null));
        Assert.True(_mailbox.PostBroadcast(shard, new BroadcastData(new byte[1]), null));
        Assert.False(_mailbox.TryReserveRun(1));
        ValueTask<bool> room = _mailbox.WaitForRoom(1, default);
        Assert.False(room.IsCompleted);
        _mailbox.Drain();
        Assert.True(room.IsCompleted);
        Assert.True(_mailbox.TryReserveRun(1));
        Assert.True(_mailbox.WaitForRoom(1, default).IsCompleted);
        _mailbox.GiveBackRun(1);
    }

    [Fact]
    public void Space_released_without_a_broadcast_is_reported_too()
    {
        Assert.True(_mailbox.TryReserveRun(Mailbox.RunLimitBytes));
        ValueTask<bool> room = _mailbox.WaitForRoom(1, default);
        Assert.False(room.IsCompleted);
        _mailbox.GiveBackRun(Mailbox.RunLimitBytes);
        Assert.True(room.IsCompleted);
    }

    [Fact]
    public void A_broadcast_larger_than_the_mailbox_is_accepted_if_half_of_it_is_free()
    {
        Assert.True(_mailbox.TryReserveRun((Mailbox.RunLimitBytes / 2) + 1));
        Assert.False(_mailbox.TryReserveRun(10 * Mailbox.RunLimitBytes));
        _mailbox.GiveBackRun((Mailbox.RunLimitBytes / 2) + 1);
        Assert.True(_mailbox.TryReserveRun(1000));
        Assert.True(_mailbox.TryReserveRun(10 * Mailbox.RunLimitBytes));
        Assert.False(_mailbox.TryReserveRun(0));
    }

    [Fact]
    public void Runs_that_are_joined_end_at_the_size_of_a_run_and_keep_their_order()
    {
        MemoryEngine engine = new(1, faults: MemoryFaults.None);
        Mailbox mailbox = engine.GetLoop(0).Mailbox;
        GroupShard shard = new SessionGroup("g").ShardOf(engine.GetLoop(0));
        for (int i = 0; i < 100; i++)
        {
            Assert.True(mailbox.TryReserveRun(2_000));
            Assert.True(mailbox.PostBroadcast(shard, new BroadcastData(new byte[2_000]), null));
        }

        // 200,000 bytes: chunks of 64, 64 and 128 KiB, of which a run holds at most 64.
        Assert.Equal(4, mailbox.WaitingItems);
    }

    [Fact]
    public void A_session_on_another_loop_is_held_above_a_mark_and_read_again_when_that_loop_has_drained()
    {
        MemoryEngine engine = new(1, loops: 2, faults: MemoryFaults.None);
        MemoryEndPoint here = new("here");
        List<SendResult> results = [];
        Script relay = new()
        {
            WhenReceived = (session, _) =>
            {
                Loop other = engine.GetLoop(1 - session.Loop.Index);
                Connection nobody = new(other);
                for (int i = 0; i < 20; i++)
                    results.Add(other.Mailbox.PostSend(nobody, Nobody, new byte[Mailbox.PaceBytes / 10], default));
            },
        };
        Server server = new(new ServerOptions { Engine = engine, EndPoint = here }, () => relay);
        engine.Run(server.StartAsync());
        MemoryPeer peer = engine.Connect(here);
        peer.Write([1]);
        engine.RunUntil(() => results.Count == 20);
        Assert.True(relay.Connection!.IsHeldForMailbox);
        Assert.All(results, static r => Assert.Equal(SendResult.Queued, r));
        engine.RunUntilIdle();
        Assert.False(relay.Connection!.IsHeldForMailbox);
        peer.Write([2]);
        engine.RunUntilIdle();
        Assert.Equal(40, results.Count);
        engine.Run(engine.DisposeAsync());
    }

    [Fact]
    public void A_sleeping_loop_is_woken_once_for_all_that_is_posted()
    {
        Assert.True(_mailbox.TrySleep());
        for (int i = 0; i < 10; i++) _mailbox.PostControl(static (_, _, _, _) => { });
        Assert.Equal(1, _mailbox.Wakes);
        Assert.False(_mailbox.TrySleep());
        _mailbox.Drain();
        for (int i = 0; i < 10; i++) _mailbox.PostControl(static (_, _, _, _) => { });
        // The loop does not sleep, so no wake is needed.
        Assert.Equal(1, _mailbox.Wakes);
    }

    [Fact]
    public void A_closed_mailbox_runs_what_is_left_and_refuses_the_rest()
    {
        int runs = 0;
        ValueTask<bool> room = default;
        _mailbox.PostControl((_, _, _, _) => runs++);
        Noted inbox = new(() => runs++);
        Assert.Equal(SendResult.Queued, _mailbox.PostOwned(_connection, Nobody, default, inbox, 0, 0));
        _mailbox.Close();
        Assert.Equal(2, runs);
        room = _mailbox.WaitForRoom(1, default);
        Assert.True(room.IsCompleted);
        Assert.False(_mailbox.PostControl((_, _, _, _) => runs++));
        Assert.False(_mailbox.PostInOrder(InboxKind.Close, _connection, Nobody));
        Assert.Equal(SendResult.Closed, _mailbox.PostSend(_connection, Nobody, [1], default));
        Assert.True(_mailbox.TryReserveRun(1));
        Assert.False(_mailbox.PostBroadcast(new SessionGroup().ShardOf(_loop), new BroadcastData([1]), null));
        Assert.Equal(2, runs);
    }

    [Fact]
    public async Task Many_threads_post_and_each_keeps_its_order()
    {
        const int threads = 4;
        const int posts = 20_000;
        await using Engine engine = new(new EngineOptions { Loops = 1 });
        Loop loop = engine.GetLoop(0);
        engine.Start();
        int[] next = new int[threads];
        int wrong = 0;
        Thread[] producers = [.. Enumerable.Range(0, threads).Select(number => new Thread(() =>
        {
            for (int i = 0; i < posts; i++)
            {
                loop.PostControl(
                    (_, _, _, value) =>
                    {
                        if (next[number]++ != value) wrong++;
                    },
                    value: i);
            }
        }))];
        foreach (Thread producer in producers) producer.Start();
        foreach (Thread producer in producers) producer.Join();
        TaskCompletionSource done = new();
        loop.Post(done.SetResult);
        await done.Task.WaitAsync(TimeSpan.FromSeconds(30), TestContext.Current.CancellationToken);
        Assert.Equal(0, wrong);
        Assert.All(next, n => Assert.Equal(posts, n));
    }

    private sealed class Noted(Action disposed) : IMemoryOwner<byte>
    {
        public Memory<byte> Memory => default;

        public void Dispose() => disposed();
    }
}
