using System.Net;
using System.Net.Sockets;
using Whimbrel.Compat.Datagrams;
using Whimbrel.Compat.Links;
using Whimbrel.Compat.Tests.Connections;

namespace Whimbrel.Compat.Tests.Datagrams;

// The guarantees of UdpLife that a program cannot observe at the right moment.
public sealed class UdpLifeTests : IUdpOwner
{
    private readonly Log _log = new();
    private readonly UdpLink _link;
    private readonly UdpLife _life;

    public UdpLifeTests()
    {
        _link = new UdpLink(this);
        _life = new UdpLife(_link, this);
    }

    private Action? AtClosed { get; set; }

    private DatagramOptions Options()
    {
        _log.Add("opens");
        return new() { EndPoint = new IPEndPoint(IPAddress.Loopback, 0) };
    }

    /// <summary>Waits until all queued callbacks have returned.</summary>
    private void AwaitCallbacks()
    {
        using ManualResetEventSlim reached = new();
        _link.Call(reached.Set);
        Assert.True(reached.Wait(Log.Patience));
    }

    [Fact]
    public void An_opening_that_waits_is_dropped_when_it_ends()
    {
        Assert.True(_life.Open(Options));
        AtClosed = () =>
        {
            Assert.True(_life.OpenLater(Options));
            _life.End();
        };
        Assert.True(_life.CloseLater());
        _log.Until("closed");
        AwaitCallbacks(); // after the opening, which a callback requests
        AwaitCallbacks();
        Assert.Equal(["opens", "opened", "closed"], _log.Lines);
        Assert.False(_life.IsOpen || _life.Open(Options) || _life.OpenLater(Options));
    }

    [Fact]
    public void An_opening_that_waits_for_a_close_is_dropped_when_it_ends()
    {
        Assert.True(_life.Open(Options));
        using ManualResetEventSlim goOn = new();
        _link.Call(() => Assert.True(goOn.Wait(Log.Patience)));
        Assert.True(_life.CloseLater());
        Assert.True(_life.OpenLater(Options));
        Assert.False(_life.OpenLater(Options));
        _life.End();
        goOn.Set();
        _log.Until("closed");
        AwaitCallbacks();
        AwaitCallbacks();
        Assert.Equal(["opens", "opened", "closed"], _log.Lines);
    }

    [Fact]
    public void An_opening_that_waits_for_a_close_follows_it()
    {
        Assert.True(_life.Open(Options));
        using ManualResetEventSlim goOn = new();
        _link.Call(() => Assert.True(goOn.Wait(Log.Patience)));
        Assert.True(_life.CloseLater());
        Assert.False(_life.IsOpen || _life.Close() || _life.Open(Options));
        Assert.True(_life.OpenLater(Options));
        goOn.Set();
        _log.Until("opened", 2);
        Assert.Equal(["opens", "opened", "closed", "opens", "opened"], _log.Lines);
        _life.End();
        Assert.Equal("closed", _log.Lines[^1]);
    }

    [Fact]
    public void An_opening_that_followed_a_close_follows_no_later_close()
    {
        Assert.True(_life.Open(Options));
        for (int i = 0; i < 2; i++)
        {
            using ManualResetEventSlim goOn = new();
            _link.Call(() => Assert.True(goOn.Wait(Log.Patience)));
            Assert.True(_life.CloseLater());
            Assert.True(_life.OpenLater(Options));
            goOn.Set();
            _log.Until("opened", 2 + i);
        }

        Assert.True(_life.CloseLater());
        _log.Until("closed", 3);
        AwaitCallbacks();
        AwaitCallbacks();
        Assert.Equal((3, 3, "closed"), (_log.Count("opens"), _log.Count("opened"), _log.Lines[^1]));
        Assert.False(_life.IsOpen);
        _life.End();
    }

    [Fact]
    public void Invalid_options_are_an_error_and_it_may_be_opened_again()
    {
        Assert.False(_life.Open(static () => throw new ArgumentOutOfRangeException("port")));
        Assert.Equal([$"error {SocketError.InvalidArgument}", "failed"], _log.Lines);
        Assert.True(_life.Open(Options));
        _life.End();
    }

    // A hundred clients of an old program do this at the same time, and the pool has as many threads as there are CPUs.
    [Fact]
    public async Task Asynchronous_calls_block_no_thread_while_the_loop_is_busy()
    {
        await using Engine engine = new(new EngineOptions { Loops = 1 });
        DatagramOptions On() => new() { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) };
        Assert.True(_life.Open(On));
        foreach ((Func<bool> begin, string told) in ((Func<bool>, string)[])[(_life.CloseLater, "closed"),
            (() => _life.OpenLater(On), "opened"), (JoinInCallback, "group")])
        {
            using ManualResetEventSlim busy = new(), goOn = new();
            Task loop = engine.PostAsync(() =>
            {
                busy.Set();
                Assert.True(goOn.Wait(Log.Patience));
            }).AsTask();
            Assert.True(busy.Wait(Log.Patience));
            int before = _log.Count(told);
            Assert.True(begin());
            AwaitCallbacks();
            Assert.Equal(before, _log.Count(told));
            goOn.Set();
            await loop;
            _log.Until(told, before + 1);
        }

        _life.End();

        bool JoinInCallback()
        {
            _link.Call(() => _life.Join("239.255.77.21"));
            return true;
        }
    }

    [Fact]
    public void Refused_datagrams_are_reported_up_to_a_limit()
    {
        const int Limit = 65_536;
        Assert.True(_life.Open(Options));
        using ManualResetEventSlim entered = new(), goOn = new();
        _link.Call(() =>
        {
            entered.Set();
            Assert.True(goOn.Wait(Log.Patience));
        });
        Assert.True(entered.Wait(Log.Patience));
        byte[] tooLong = new byte[70_000];
        IPEndPoint peer = new(IPAddress.Loopback, 9);
        for (int i = 0; i < Limit + 10; i++) Assert.False(_link.Queue(peer, tooLong));
        goOn.Set();
        AwaitCallbacks();
        Assert.Equal(Limit, _log.Count($"error {SocketError.MessageSize}"));
        _life.End();
    }

    // If it were reported, the handler would fetch again, and fail again, without end.
    [Fact]
    public async Task A_fetch_that_ends_with_the_engine_is_not_reported()
    {
        await using Engine engine = new(new EngineOptions { Loops = 1 });
        Assert.True(_life.Open(() => new() { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) }));
        _link.Arm();
        await engine.StopAsync();
        AwaitCallbacks();
        AwaitCallbacks();
        Assert.False(_life.IsOpen || _life.Close());
        Assert.Equal(["opened"], _log.Lines);
        Assert.True(_life.Open(Options));
        _life.End();
    }

    [Fact]
    public void A_lookup_is_cancelled()
    {
        Resolving resolving = new();
        CancellationToken token = resolving.LookUps;
        resolving.Cancel();
        Assert.True(token.IsCancellationRequested);
        Assert.False(resolving.LookUps.IsCancellationRequested);
        SocketException given =
            Assert.Throws<SocketException>(() => Resolving.LookUp(new DnsEndPoint("localhost", 1), token));
        Assert.Equal(SocketError.OperationAborted, given.SocketErrorCode);
        Assert.IsType<IPEndPoint>(Resolving.LookUp(new DnsEndPoint("localhost", 1), resolving.LookUps));
    }

    void IDatagramOwner.TellReceived(EndPoint peer, byte[] buffer, int size) => _log.Add("received");

    void IDatagramOwner.TellSent(EndPoint peer, long bytes) => _log.Add("sent");

    // The machine may have no multicast route.
    void IDatagramOwner.TellError(SocketError error) =>
        _log.Add(error is SocketError.NetworkUnreachable or SocketError.HostUnreachable ? "group" : $"error {error}");

    void IDatagramOwner.TellTooLong(EndPoint peer, byte[] buffer) => _log.Add("too long");

    void IUdpOwner.TellOpened() => _log.Add("opened");

    void IUdpOwner.TellClosed()
    {
        _log.Add("closed");
        AtClosed?.Invoke();
    }

    void IUdpOwner.TellGroup(string group, bool joined) => _log.Add("group");

    void IUdpOwner.TellFailed() => _log.Add("failed");
}
