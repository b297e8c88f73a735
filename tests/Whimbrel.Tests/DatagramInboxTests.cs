using Whimbrel.Datagrams;

namespace Whimbrel.Tests;

// The queue of a socket without a handler: a failure is for one receive call.
public sealed class DatagramInboxTests : IAsyncDisposable
{
    private readonly Engine _engine = new(new EngineOptions { Loops = 1 });

    public ValueTask DisposeAsync() => _engine.DisposeAsync();

    [Fact]
    public async Task A_failure_is_given_to_one_receive_and_the_next_one_waits()
    {
        DatagramInbox inbox = new(_engine, 1000);
        for (int time = 0; time < 2; time++)
        {
            inbox.Fail(new IOException($"failure {time}"));
            IOException told = await Assert.ThrowsAsync<IOException>(
                async () => await inbox.ReceiveAsync(new byte[10], TestContext.Current.CancellationToken));
            Assert.Equal($"failure {time}", told.Message);
            byte[] target = new byte[10];
            ValueTask<ReceivedDatagram> next = inbox.ReceiveAsync(target, TestContext.Current.CancellationToken);
            Assert.False(next.IsCompleted);
            inbox.Put("x"u8, 1, DatagramPeer.V4(1, 7));
            Assert.Equal(1, (await next).Length);
            Assert.Equal((byte)'x', target[0]);
        }
    }

    [Fact]
    public void A_failure_wakes_a_receive_that_blocks()
    {
        DatagramInbox inbox = new(_engine, 1000);
        Exception? told = null;
        Thread receiver = new(() => told = Record.Exception(
            () => inbox.TryReceive(new byte[10], Timeout.InfiniteTimeSpan, out _)))
        {
            IsBackground = true
        };
        receiver.Start();
        SpinWait.SpinUntil(() => receiver.ThreadState.HasFlag(ThreadState.WaitSleepJoin), TimeSpan.FromSeconds(30));
        inbox.Fail(new IOException("failure"));
        Assert.True(receiver.Join(TimeSpan.FromSeconds(30)), "it still blocks");
        Assert.Equal("failure", Assert.IsType<IOException>(told).Message);
    }
}
