using System.Buffers;
using Whimbrel.Connections;
using Whimbrel.Engines;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

public sealed class MailboxTests
{
    private const uint Nobody = 12345;

    private readonly Loop _loop;
    private readonly Mailbox _mailbox;
    private readonly Connection _connection;

    public MailboxTests()
    {
        _loop = new MemoryEngine(1).GetLoop(0);
        _mailbox = new Mailbox(_loop);
        // Its generation is another one: what is drained for it is dropped.
        _connection = new Connection(_loop);
    }

    [Fact]
    public void Control_is_drained_before_data_and_each_lane_in_order()
    {
        List<string> order = [];
        for (int i = 0; i < 100; i++)
        {
            int number = i;
            _mailbox.PostOwned(_connection, Nobody, new Noted(() => order.Add($"data {number}")), 0);
            _mailbox.PostControl((_, _, _, value) => order.Add($"control {value}"), value: i);
        }

        Assert.True(_mailbox.Any);
        Assert.Empty(order);
        _mailbox.Drain();
        Assert.False(_mailbox.Any);
        Assert.Equal([.. Enumerable.Range(0, 100).Select(i => $"control {i}"), .. Enumerable.Range(0, 100).Select(i => $"data {i}")], order);
    }

    [Fact]
    public void What_is_posted_while_draining_waits_for_the_next_drain()
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
        byte[] half = new byte[Mailbox.LimitBytes / 2];
        Assert.Equal(SendResult.Queued, _mailbox.PostSend(_connection, Nobody, half, default));
        Assert.Equal(SendResult.Queued, _mailbox.PostSend(_connection, Nobody, half.AsSpan(1), [1]));
        Assert.Equal(SendResult.Full, _mailbox.PostSend(_connection, Nobody, [1], default));
        Assert.Equal(1, _mailbox.Refused);
        // Control and items without bytes have no limit.
        Assert.True(_mailbox.PostControl(static (_, _, _, _) => { }));
        Assert.True(_mailbox.PostItem(DataKind.Close, _connection, Nobody));
        _mailbox.Drain();
        Assert.Equal(SendResult.Queued, _mailbox.PostSend(_connection, Nobody, [1], default));
    }

    [Fact]
    public void One_send_above_the_limit_is_taken_by_an_empty_lane()
    {
        Assert.Equal(SendResult.Queued, _mailbox.PostSend(_connection, Nobody, new byte[Mailbox.LimitBytes + 1], default));
        Assert.Equal(SendResult.Full, _mailbox.PostSend(_connection, Nobody, [1], default));
    }

    [Fact]
    public void Broadcasts_of_other_threads_are_taken_up_to_a_run_and_refused_one_byte_past_it()
    {
        GroupShard shard = new SessionGroup("g").ShardOf(_loop);
        Assert.Equal(SendResult.Queued, _mailbox.PostBroadcast(shard, new byte[Mailbox.RunLimitBytes - 1], null));
        Assert.Equal(SendResult.Queued, _mailbox.PostBroadcast(shard, [1], null));
        Assert.Equal(SendResult.Full, _mailbox.PostBroadcast(shard, [1], null));
        ValueTask<bool> room = _mailbox.WaitForRoom(1, default);
        Assert.False(room.IsCompleted);
        _mailbox.Drain();
        Assert.True(room.IsCompleted);
        Assert.Equal(SendResult.Queued, _mailbox.PostBroadcast(shard, [1], null));
        Assert.True(_mailbox.WaitForRoom(1, default).IsCompleted);
    }

    [Fact]
    public void A_loop_may_post_four_times_the_limit()
    {
        MemoryEngine engine = new(1, loops: 2, faults: MemoryFaults.None);
        Mailbox target = engine.GetLoop(1).Mailbox;
        Connection connection = new(engine.GetLoop(1));
        List<SendResult> results = [];
        engine.GetLoop(0).Post(() =>
        {
            for (int i = 0; i < 5; i++) results.Add(target.PostSend(connection, Nobody, new byte[Mailbox.LimitBytes], default));
        });
        engine.GetLoop(0).RunTurnHere();
        Assert.Equal([SendResult.Queued, SendResult.Queued, SendResult.Queued, SendResult.Queued, SendResult.Full], results);
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
        // It does not sleep: nobody needs to wake it.
        Assert.Equal(1, _mailbox.Wakes);
    }

    [Fact]
    public void A_closed_mailbox_runs_what_is_left_and_refuses_the_rest()
    {
        int runs = 0;
        ValueTask<bool> room = default;
        _mailbox.PostControl((_, _, _, _) => runs++);
        _mailbox.Close();
        Assert.Equal(1, runs);
        room = _mailbox.WaitForRoom(1, default);
        Assert.True(room.IsCompleted);
        Assert.False(_mailbox.PostControl((_, _, _, _) => runs++));
        Assert.False(_mailbox.PostItem(DataKind.Close, _connection, Nobody));
        Assert.Equal(SendResult.Closed, _mailbox.PostSend(_connection, Nobody, [1], default));
        Assert.Equal(SendResult.Closed, _mailbox.PostBroadcast(new SessionGroup().ShardOf(_loop), [1], null));
        Assert.Equal(1, runs);
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
