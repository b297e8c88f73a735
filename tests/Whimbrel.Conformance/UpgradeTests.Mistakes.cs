using System.Net;
using System.Net.Sockets;
using Whimbrel.Linux;

namespace Whimbrel.Conformance;

// Wrong use, and processes that end at each step of an upgrade.
public sealed partial class UpgradeTests
{
    private static readonly TimeSpan s_limit = TimeSpan.FromSeconds(30);

    [Fact]
    public async Task Of_two_first_processes_the_second_to_be_ready_fails_and_the_first_can_be_replaced()
    {
        Skip(EngineKind.Epoll);
        await using Side one = await StartAsync(EngineKind.Epoll, [Free]);
        await using Side two = await StartAsync(EngineKind.Epoll, [Free]); // finds no process, and binds
        await one.Upgrade.ReadyAsync(Cancel);
        NetworkException late = await Assert.ThrowsAsync<NetworkException>(() => two.Upgrade.ReadyAsync(Cancel));
        Assert.Contains($"Process {Environment.ProcessId} has opened {UpgradePath} while this one started",
            late.Message, StringComparison.Ordinal);
        await NoticedAsync("it ended before it asked"); // the second one has looked whether it lives
        Assert.Equal([UpgradePath], Directory.GetFiles(_folder));
        await using Side next = await StartAsync(EngineKind.Epoll, [one.At]);
        await next.Upgrade.ReadyAsync(Cancel);
        await one.Upgrade.Replaced.WaitAsync(s_limit, Cancel);
        Assert.False(two.Upgrade.IsReplaced);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task An_address_in_use_is_explained_by_the_old_process_that_does_not_answer(bool isDatagrams)
    {
        Skip(EngineKind.Epoll);
        await using Side old = await StartAsync(EngineKind.Epoll, [Free]); // has not called ReadyAsync
        EndPoint at = old.At;
        using Socket other = new(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp);
        if (isDatagrams)
        {
            other.Bind(Free);
            at = other.LocalEndPoint!;
        }

        await using ProcessUpgrade upgrade = new(UpgradePath);
        await using Engine engine = new(new EngineOptions { Kind = EngineKind.Epoll, Loops = 1 });
        NetworkException refused = await Assert.ThrowsAsync<NetworkException>(async () =>
        {
            if (isDatagrams)
                await using (DatagramSocket socket = new(
                    new DatagramOptions { Engine = engine, EndPoint = at, Upgrade = upgrade }, static () => new Back()))
                    await socket.StartAsync(Cancel);
            else await StartAsync(EngineKind.Epoll, [at]);
        });
        Assert.Contains("already in use", refused.Message, StringComparison.Ordinal);
        Assert.Contains($"No process answered at {UpgradePath}, so no socket was taken over", refused.Message,
            StringComparison.Ordinal);
    }

    [Fact]
    public async Task ReadyAsync_without_a_started_server_throws_and_the_old_process_continues()
    {
        Skip(EngineKind.Epoll);
        await using ProcessUpgrade first = new(UpgradePath);
        Assert.Contains("is started. Set Upgrade in their options",
            (await Assert.ThrowsAsync<InvalidOperationException>(() => first.ReadyAsync(Cancel))).Message,
            StringComparison.Ordinal);
        await using Side old = await StartAsync(EngineKind.Epoll, [Free]);
        await old.Upgrade.ReadyAsync(Cancel);
        await using ProcessUpgrade second = new(UpgradePath);
        await Assert.ThrowsAsync<InvalidOperationException>(() => second.ReadyAsync(Cancel));
        await NoticedAsync("it ended before it was ready. This process continues to accept.");
        using Socket socket = await ConnectAsync(old.At);
        await InheritedSocketTests.EchoesAsync(socket);
        Assert.False(old.Upgrade.IsReplaced);
    }

    [Fact]
    public void A_status_at_the_path_of_the_upgrade_is_a_mistake()
    {
        Skip(EngineKind.Epoll);
        ServerOptions options = new()
        {
            Address = "tcp://127.0.0.1:0",
            Upgrade = new ProcessUpgrade(UpgradePath),
            StatusPath = Path.Combine(_folder, "..", Path.GetFileName(_folder), "upgrade"),
        };
        Assert.Contains("is the path of Upgrade: give each a path of its own",
            string.Join("; ", options.FindMistakes()), StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_second_upgrade_object_with_the_same_path_in_one_process_is_refused()
    {
        Skip(EngineKind.Epoll);
        await using Side one = await StartAsync(EngineKind.Epoll, [Free]);
        await one.Upgrade.ReadyAsync(Cancel);
        AppContext.SetSwitch("Whimbrel.UpgradesWithinProcess", false);
        try
        {
            await RefusedAsync("it is this process, which has another ProcessUpgrade with that path: use one object");
        }
        finally
        {
            AppContext.SetSwitch("Whimbrel.UpgradesWithinProcess", true);
        }

        Assert.True(one.Server.IsAccepting);
    }

    [Fact]
    public async Task Another_program_with_the_same_path_is_refused()
    {
        Skip(EngineKind.Epoll);
        await using Side old = await StartAsync(EngineKind.Epoll, [Free]);
        await old.Upgrade.ReadyAsync(Cancel);
        using (UpgradeChannel peer = Ask($"{UpgradeNames.Question}77 Shop"))
            Assert.Equal($"refused it is a process of '{UpgradeNames.Program}', and this one is of 'Shop': give each "
                + "program a path of its own", peer.Receive(s_limit, out _, out _));
        await NoticedAsync("it sent 'whimbrel-upgrade 1 77 Shop'. This process continues to accept.");
        Assert.NotEmpty(UpgradeNames.Program);
        Assert.Equal(UpgradeNames.Program, UpgradeNames.ProgramOf(UpgradeNames.PacketOfQuestion()));
    }

    [Theory]
    [InlineData("sockets")]
    [InlineData("ready")]
    [InlineData("released")]
    public async Task A_new_process_that_ends_after_a_step_leaves_a_path_and_a_port_for_the_next(string step)
    {
        Skip(EngineKind.Epoll);
        await using Side old = await StartAsync(EngineKind.Epoll, [Free]);
        EndPoint at = old.At;
        await old.Upgrade.ReadyAsync(Cancel);
        using (UpgradeChannel peer = Ask(UpgradeNames.PacketOfQuestion()))
        {
            TakeSockets(peer);
            if (step != "sockets") Assert.Equal(0, peer.Send($"{UpgradeNames.Ready}0", s_limit));
            if (step == "released")
                Assert.Equal(UpgradeNames.Released, peer.Receive(s_limit, out _, out _));
        }

        if (step == "sockets")
        {
            await NoticedAsync("it ended before it was ready. This process continues to accept.");
            Assert.True(old.Server.IsAccepting);
        }
        else
        {
            // From ready on the new process serves alone, so the old one drains and ends.
            await old.Upgrade.Replaced.WaitAsync(s_limit, Cancel);
            Assert.False(old.Server.IsAccepting);
        }

        await using Side next = await StartAsync(EngineKind.Epoll, [at]);
        await next.Upgrade.ReadyAsync(Cancel);
        using Socket socket = await ConnectAsync(at);
        await InheritedSocketTests.EchoesAsync(socket);
        Assert.Equal(1, next.Server.AcceptedCount);
    }

    [Fact]
    public async Task A_third_process_is_refused_until_the_path_leads_to_the_second()
    {
        Skip(EngineKind.Epoll);
        await using Side old = await StartAsync(EngineKind.Epoll, [Free]);
        await old.Upgrade.ReadyAsync(Cancel);
        using UpgradeChannel second = Ask(UpgradeNames.PacketOfQuestion());
        await RefusedAsync("it is giving them to process");
        TakeSockets(second);
        await RefusedAsync("it is giving them to process");
        Assert.Equal(0, second.Send($"{UpgradeNames.Ready}0", s_limit));
        Assert.Equal(UpgradeNames.Released, second.Receive(s_limit, out _, out _));
        await RefusedAsync("it is giving them to process");
        Assert.False(old.Upgrade.Replaced.IsCompleted);
        Assert.Equal(0, second.Send(UpgradeNames.Owned, s_limit));
        await old.Upgrade.Replaced.WaitAsync(s_limit, Cancel);
    }

    [Theory]
    [InlineData(true, "ended in the middle of the upgrade. This process serves alone.")]
    [InlineData(false, "has not stopped accepting within 1 s: a callback may block one of its loops.")]
    public async Task An_old_process_that_ends_or_hangs_after_ready_is_reported_and_the_new_one_serves(bool ends,
        string expected)
    {
        Skip(EngineKind.Epoll);
        int listening = UpgradeChannel.Listen(new UnixDomainSocketEndPoint(UpgradePath));
        Assert.True(listening >= 0);
        using Socket given = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        given.Bind(Free);
        given.Listen();
        Task old = Task.Run(
            () =>
            {
                using UpgradeChannel peer = UpgradeChannel.Accept(listening)!;
                Assert.StartsWith(UpgradeNames.Question, peer.Receive(s_limit, out _, out _), StringComparison.Ordinal);
                Assert.Equal(0, peer.Send($"socket 0 1 {given.LocalEndPoint}", s_limit, (int)given.Handle));
                Assert.Equal(0, peer.Send(UpgradeNames.End, s_limit));
                Assert.Equal($"{UpgradeNames.Ready}0", peer.Receive(s_limit, out _, out _));
                if (!ends) Assert.Equal(UpgradeNames.Owned, peer.Receive(s_limit, out _, out _));
            },
            Cancel);
        await using Side fresh = await StartAsync(EngineKind.Epoll, [given.LocalEndPoint!],
            readyLimit: TimeSpan.FromSeconds(1));
        await fresh.Upgrade.ReadyAsync(Cancel);
        await old;
        await NoticedAsync(expected);
        Syscall.Close(listening);
        given.Dispose();
        using Socket socket = await ConnectAsync(fresh.At);
        await InheritedSocketTests.EchoesAsync(socket);
    }

    private UpgradeChannel Ask(string question)
    {
        UpgradeChannel peer = UpgradeChannel.Connect(new UnixDomainSocketEndPoint(UpgradePath), s_limit, out _)!;
        Assert.Equal(0, peer.Send(question, s_limit));
        return peer;
    }

    /// <summary>Receives all sockets, and closes them.</summary>
    private static void TakeSockets(UpgradeChannel peer)
    {
        while (peer.Receive(s_limit, out int descriptor, out _) != UpgradeNames.End) Syscall.Close(descriptor);
    }
}
