using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using System.Runtime.Versioning;
using System.Text;
using Whimbrel.Engines.Uring;
using Whimbrel.Linux;

namespace Whimbrel.Conformance;

// Hand-over of listening sockets, with the old and the new process in one: the kernel's rules are the same. Real
// processes are in Whimbrel.Tool.Tests.UpgradeTests.
[UnsupportedOSPlatform("windows")]
public sealed partial class UpgradeTests : IDisposable
{
    private readonly string _folder = Directory.CreateTempSubdirectory("whimbrel-").FullName;
    private readonly List<DiagnosticEvent> _notices = [];

    private static CancellationToken Cancel => TestContext.Current.CancellationToken;

    private string UpgradePath => Path.Combine(_folder, "upgrade");

    public void Dispose() => Directory.Delete(_folder, recursive: true);

    [Theory]
    [InlineData(EngineKind.Uring, EngineKind.Epoll, false)]
    [InlineData(EngineKind.Epoll, EngineKind.Uring, true)]
    [InlineData(EngineKind.Epoll, EngineKind.Epoll, false)]
    [InlineData(EngineKind.Uring, EngineKind.Uring, true)]
    public async Task A_new_process_takes_the_socket_and_the_old_one_keeps_its_sessions(EngineKind one,
        EngineKind other, bool isUnix)
    {
        Skip(one, other);
        EndPoint at = isUnix ? new UnixDomainSocketEndPoint(Path.Combine(_folder, "listen")) : Free;
        await using Side old = await StartAsync(one, [at]);
        await old.Upgrade.ReadyAsync(Cancel);
        Assert.Null(old.Upgrade.OldProcess);
        using Socket early = await ConnectAsync(old.At);
        await InheritedSocketTests.EchoesAsync(early);
        await using Side fresh = await StartAsync(other, [at]);
        Assert.Equal(old.At.ToString(), fresh.At.ToString()); // also with port 0
        Assert.False(old.Upgrade.Replaced.IsCompleted);
        await fresh.Upgrade.ReadyAsync(Cancel);
        await old.Upgrade.Replaced.WaitAsync(TimeSpan.FromSeconds(30), Cancel);
        Assert.Equal(Environment.ProcessId, fresh.Upgrade.OldProcess);
        Assert.True(old.Upgrade.IsReplaced);
        Assert.False(old.Server.IsAccepting);
        await InheritedSocketTests.EchoesAsync(early);
        using Socket late = await ConnectAsync(fresh.At);
        await InheritedSocketTests.EchoesAsync(late);
        Assert.Equal((1, 1), (old.Server.AcceptedCount, fresh.Server.AcceptedCount));
        await old.Server.StopAsync(TimeSpan.Zero);
        await old.Upgrade.DisposeAsync();
        Assert.True(File.Exists(UpgradePath));
        using Socket last = await ConnectAsync(fresh.At);
        await InheritedSocketTests.EchoesAsync(last);
        await fresh.Server.StopAsync(TimeSpan.Zero);
        if (isUnix) Assert.False(File.Exists(at.ToString()));
        else await Assert.ThrowsAsync<SocketException>(() => ConnectAsync(fresh.At));
        await fresh.Upgrade.DisposeAsync();
        Assert.False(File.Exists(UpgradePath));
        Assert.Empty(_notices);
    }

    [Theory]
    [InlineData(EngineKind.Epoll, 3, 1)]
    [InlineData(EngineKind.Epoll, 1, 3)]
    [InlineData(EngineKind.Uring, 3, 1)]
    [InlineData(EngineKind.Uring, 2, 3)]
    public async Task Connections_that_wait_in_the_queue_of_each_loops_listener_are_served_by_the_new_process(
        EngineKind kind, int before, int after)
    {
        Skip(kind);
        AcceptOptions perLoop = new() { Scheme = AcceptScheme.ListenerPerLoop, AtStart = false };
        await using Side old = await StartAsync(kind, [Free], before, perLoop);
        await old.Upgrade.ReadyAsync(Cancel);
        List<Socket> waiting = [];
        try
        {
            // Enough for each of three queues to have some.
            for (int i = 0; i < 60; i++) waiting.Add(await ConnectAsync(old.At));
            await using Side fresh = await StartAsync(kind, [Free], after,
                new AcceptOptions { Scheme = AcceptScheme.ListenerPerLoop });
            await fresh.Upgrade.ReadyAsync(Cancel);
            await old.Upgrade.Replaced.WaitAsync(TimeSpan.FromSeconds(30), Cancel);
            await old.Server.StopAsync(TimeSpan.FromSeconds(10));
            foreach (Socket socket in waiting) await InheritedSocketTests.EchoesAsync(socket);
            Assert.Equal((0, 60), (old.Server.AcceptedCount, fresh.Server.AcceptedCount));
            for (int i = 0; i < 60; i++)
            {
                using Socket more = await ConnectAsync(fresh.At);
                await InheritedSocketTests.EchoesAsync(more);
            }

            // And once more, with what the second process has.
            await using Side third = await StartAsync(kind, [Free], before, perLoop);
            await third.Upgrade.ReadyAsync(Cancel);
            Assert.Equal(old.At, third.At);
            // A server that stops waits five seconds for the end of each peer.
            waiting.ForEach(static s => s.Dispose());
        }
        finally
        {
            waiting.ForEach(static s => s.Dispose());
        }
    }

    [Theory]
    [InlineData(EngineKind.Epoll)]
    [InlineData(EngineKind.Uring)]
    public async Task After_a_new_process_that_fails_before_it_is_ready_the_old_one_accepts_and_drains_as_before(
        EngineKind kind)
    {
        Skip(kind);
        UnixDomainSocketEndPoint unix = new(Path.Combine(_folder, "listen"));
        await using Side old = await StartAsync(kind, [Free, unix]);
        await old.Upgrade.ReadyAsync(Cancel);
        await using (Side fresh = await StartAsync(kind, [Free, unix]))
        {
            await fresh.Server.StopAsync(TimeSpan.Zero);
            await fresh.Upgrade.DisposeAsync();
        }

        await NoticedAsync("has failed: it ended before it was ready. This process continues to accept.");
        Assert.False(old.Upgrade.IsReplaced);
        foreach (EndPoint at in old.Server.EndPoints)
        {
            using Socket socket = await ConnectAsync(at);
            await InheritedSocketTests.EchoesAsync(socket);
        }

        // A process that fails is no obstacle for the next one.
        await using Side next = await StartAsync(kind, [Free, unix]);
        await next.Upgrade.ReadyAsync(Cancel);
        await old.Upgrade.Replaced.WaitAsync(TimeSpan.FromSeconds(30), Cancel);
        await next.Server.StopAsync(TimeSpan.FromSeconds(10));
        Assert.False(File.Exists(unix.ToString()));
    }

    [Fact]
    public async Task An_address_that_only_one_of_the_processes_has_is_bound_or_drained()
    {
        Skip(EngineKind.Epoll);
        UnixDomainSocketEndPoint gone = new(Path.Combine(_folder, "gone")), added = new(Path.Combine(_folder, "new"));
        await using Side old = await StartAsync(EngineKind.Epoll, [Free, gone],
            accept: new AcceptOptions { AtStart = false });
        await old.Upgrade.ReadyAsync(Cancel);
        using Socket waiting = await ConnectAsync(gone);
        await using Side fresh = await StartAsync(EngineKind.Epoll, [Free, added]);
        await fresh.Upgrade.ReadyAsync(Cancel);
        await old.Upgrade.Replaced.WaitAsync(TimeSpan.FromSeconds(30), Cancel);
        await InheritedSocketTests.EchoesAsync(waiting);
        Assert.Equal(1, old.Server.AcceptedCount);
        Assert.False(File.Exists(gone.ToString()));
        lock (_notices)
            Assert.Contains($"drains and closes them: {gone}. ", Assert.Single(_notices).Message,
                StringComparison.Ordinal);
        using Socket socket = await ConnectAsync(added);
        await InheritedSocketTests.EchoesAsync(socket);
    }

    [Theory]
    [InlineData(EngineKind.Epoll, 1, 1)]
    [InlineData(EngineKind.Uring, 2, 1)]
    [InlineData(EngineKind.Epoll, 2, 2)]
    [InlineData(EngineKind.Uring, 1, 2)]
    public async Task A_new_process_receives_the_datagrams_and_the_old_one_can_still_send(EngineKind kind, int before,
        int after)
    {
        Skip(kind);
        await using ProcessUpgrade first = new(UpgradePath), second = new(UpgradePath);
        await using Engine engine = new(new EngineOptions { Kind = kind, Loops = 2 });
        await using DatagramSocket old = Make(first, before), fresh = Make(second, after);
        await old.StartAsync(Cancel);
        await first.ReadyAsync(Cancel);
        List<Socket> peers = [];
        try
        {
            // Several, because the kernel chooses one of the sockets by the address of the peer.
            for (int i = 0; i < 8; i++)
            {
                Socket peer = new(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp);
                peers.Add(peer);
                await peer.ConnectAsync(old.EndPoint!, Cancel);
                await InheritedSocketTests.EchoesAsync(peer);
            }

            await fresh.StartAsync(Cancel);
            Assert.Equal(old.EndPoint, fresh.EndPoint);
            await second.ReadyAsync(Cancel);
            await first.Replaced.WaitAsync(TimeSpan.FromSeconds(30), Cancel);
            long received = old.ReadCounters().DatagramsReceived;
            foreach (Socket peer in peers) await InheritedSocketTests.EchoesAsync(peer);
            Assert.Equal(received, old.ReadCounters().DatagramsReceived);
            Assert.Equal(8, fresh.ReadCounters().DatagramsReceived);
            Assert.Equal(SendResult.Queued, old.Send("bye"u8, new DatagramPeer((IPEndPoint)peers[0].LocalEndPoint!)));
            byte[] last = new byte[16];
            Assert.Equal(3, await peers[0].ReceiveAsync(last, Cancel));
            await old.StopAsync(TimeSpan.FromSeconds(10));
            foreach (Socket peer in peers) await InheritedSocketTests.EchoesAsync(peer);
        }
        finally
        {
            peers.ForEach(static p => p.Dispose());
        }

        DatagramSocket Make(ProcessUpgrade upgrade, int loops) => new(
            new DatagramOptions { Engine = engine, EndPoint = Free, Loops = loops, Upgrade = upgrade },
            static () => new Back());
    }

    [Fact]
    public async Task A_second_upgrade_at_the_same_time_is_refused_and_may_be_tried_again()
    {
        Skip(EngineKind.Epoll);
        await using Side old = await StartAsync(EngineKind.Epoll, [Free]);
        await old.Upgrade.ReadyAsync(Cancel);
        await using Side first = await StartAsync(EngineKind.Epoll, [Free]);
        NetworkException refused =
            await Assert.ThrowsAsync<NetworkException>(() => StartAsync(EngineKind.Epoll, [Free]));
        Assert.Contains(
            $"it is giving them to process {Environment.ProcessId} at this moment: start this process again",
            refused.Message, StringComparison.Ordinal);
        await first.Upgrade.ReadyAsync(Cancel);
        await old.Upgrade.Replaced.WaitAsync(TimeSpan.FromSeconds(30), Cancel);
        await using Side second = await StartAsync(EngineKind.Epoll, [Free]);
        await second.Upgrade.ReadyAsync(Cancel);
        await first.Upgrade.Replaced.WaitAsync(TimeSpan.FromSeconds(30), Cancel);
        Assert.Equal(old.At, second.At);
    }

    [Fact]
    public async Task A_new_process_that_is_never_ready_is_given_up_after_the_limit()
    {
        Skip(EngineKind.Epoll);
        await using Side old = await StartAsync(EngineKind.Epoll, [Free], readyLimit: TimeSpan.FromSeconds(1));
        await old.Upgrade.ReadyAsync(Cancel);
        await using Side fresh = await StartAsync(EngineKind.Epoll, [Free]);
        await NoticedAsync("it was not ready within 1 s (does it call ProcessUpgrade.ReadyAsync after its last server "
            + "has started?)");
        NetworkException late = await Assert.ThrowsAsync<NetworkException>(() => fresh.Upgrade.ReadyAsync(Cancel));
        Assert.Contains("it waited 1 s for this process to be ready", late.Message, StringComparison.Ordinal);
        Assert.True(old.Server.IsAccepting);
        Assert.False(old.Upgrade.IsReplaced);
    }

    [Fact]
    public async Task A_stale_socket_file_is_replaced_and_other_files_are_left_alone()
    {
        Skip(EngineKind.Epoll);
        using (Socket stale = new(AddressFamily.Unix, SocketType.Seqpacket, ProtocolType.Unspecified))
        {
            stale.Bind(new UnixDomainSocketEndPoint(UpgradePath + ".tmp"));
            File.Move(UpgradePath + ".tmp", UpgradePath);
        }

        await using (Side server = await StartAsync(EngineKind.Epoll, [Free]))
        {
            await server.Upgrade.ReadyAsync(Cancel);
            Assert.Equal(UnixFileMode.UserRead | UnixFileMode.UserWrite, File.GetUnixFileMode(UpgradePath));
        }

        await File.WriteAllTextAsync(UpgradePath, "notes", Cancel);
        await RefusedAsync("a file is at that path, which is no socket and stays as it is");
        Assert.Equal("notes", await File.ReadAllTextAsync(UpgradePath, Cancel));
        File.Delete(UpgradePath);
        using (Socket stream = new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified))
        {
            stream.Bind(new UnixDomainSocketEndPoint(UpgradePath));
            stream.Listen();
            await RefusedAsync("the socket at that path is none of an upgrade: give a path of its own");
        }

        Directory.CreateDirectory(UpgradePath);
        await RefusedAsync("a directory is at that path");
        Directory.Delete(UpgradePath);
        ProcessUpgrade nowhere = new(Path.Combine(_folder, "no", "upgrade"));
        Assert.Contains("the folder of the path does not exist",
            (await Assert.ThrowsAsync<NetworkException>(() => nowhere.ReadyAsync(Cancel))).Message,
            StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("pipe", "it sent a descriptor that cannot be used: Descriptor")]
    [InlineData("client", "does not listen")]
    [InlineData("type", "it sent a descriptor that cannot be used")]
    [InlineData("words", "it sent 'hello', which is no packet of an upgrade")]
    [InlineData("refused", "it is busy with something. Nothing was changed there")]
    [InlineData("end", "it ended before it had sent its sockets")]
    [InlineData("silence", "it has not answered within 5 s")]
    public async Task An_answer_that_cannot_be_used_fails_the_start_with_the_reason(string answer, string expected)
    {
        Skip(EngineKind.Epoll);
        int listening = UpgradeChannel.Listen(new UnixDomainSocketEndPoint(UpgradePath));
        Assert.True(listening >= 0);
        using Socket client = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        using Socket datagrams = new(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp);
        datagrams.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        using FileStream file = File.OpenRead("/dev/null");
        Task old = Task.Run(
            () =>
            {
                TimeSpan limit = TimeSpan.FromSeconds(30);
                using UpgradeChannel peer = UpgradeChannel.Accept(listening)!;
                Assert.StartsWith("whimbrel-upgrade 1 ", peer.Receive(limit, out _, out _), StringComparison.Ordinal);
                _ = answer switch
                {
                    "pipe" => peer.Send("socket 0 1 127.0.0.1:0", limit,
                        (int)file.SafeFileHandle.DangerousGetHandle()),
                    "client" => peer.Send("socket 0 1 127.0.0.1:0", limit, (int)client.Handle),
                    "type" => peer.Send("socket 0 1 127.0.0.1:0", limit, (int)datagrams.Handle),
                    "words" => peer.Send("hello", limit),
                    "refused" => peer.Send("refused it is busy with something", limit),
                    _ => 0,
                };
                // Waits until the other end has closed.
                if (answer != "end") Assert.Null(peer.Receive(limit, out _, out _));
            },
            Cancel);
        await RefusedAsync(expected);
        await old;
        Syscall.Close(listening);
    }

    [Theory]
    [InlineData("hello", "it sent 'hello'")]
    [InlineData("whimbrel-upgrade 2 77", "it sent 'whimbrel-upgrade 2 77'")]
    [InlineData("", "it ended before it asked")]
    public async Task A_peer_that_speaks_another_protocol_changes_nothing(string words, string expected)
    {
        Skip(EngineKind.Epoll);
        await using Side old = await StartAsync(EngineKind.Epoll, [Free]);
        await old.Upgrade.ReadyAsync(Cancel);
        using (UpgradeChannel peer = UpgradeChannel.Connect(new UnixDomainSocketEndPoint(UpgradePath),
            TimeSpan.FromSeconds(5), out _)!)
        {
            if (words.Length > 0)
            {
                Assert.Equal(0, peer.Send(words, TimeSpan.FromSeconds(5)));
                Assert.StartsWith("refused ", peer.Receive(TimeSpan.FromSeconds(30), out _, out _),
                    StringComparison.Ordinal);
            }
        }

        await NoticedAsync(expected);
        using Socket socket = await ConnectAsync(old.At);
        await InheritedSocketTests.EchoesAsync(socket);
    }

    [Fact]
    public async Task A_process_of_another_user_is_refused()
    {
        Skip(EngineKind.Epoll);
        Assert.SkipUnless(Environment.UserName == "root" && File.Exists("/usr/bin/python3"),
            "Becoming another user needs root and Python 3.");
        await using Side old = await StartAsync(EngineKind.Epoll, [Free]);
        await old.Upgrade.ReadyAsync(Cancel);
        // Permissions of the path for other users give no access to the sockets.
        File.SetUnixFileMode(_folder, (UnixFileMode)0x1FF);
        File.SetUnixFileMode(UpgradePath, (UnixFileMode)0x1B6);
        using Process stranger = Process.Start(new ProcessStartInfo("/usr/bin/python3", ["-c", """
            import os, socket, sys
            os.setuid(65534)
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            s.connect(sys.argv[1])
            try: s.send(b"whimbrel-upgrade 1 1")
            except BrokenPipeError: pass
            print(s.recvmsg(4096, 64)[:2])
            """, UpgradePath])
        { RedirectStandardOutput = true })!;
        string said = await stranger.StandardOutput.ReadToEndAsync(Cancel);
        await stranger.WaitForExitAsync(Cancel);
        Assert.Contains("refused it serves processes of user 0 only, and this one belongs to user 65534", said,
            StringComparison.Ordinal);
        Assert.EndsWith(", [])\n", said, StringComparison.Ordinal); // no descriptor
        Assert.True(old.Server.IsAccepting);
    }

    [Fact]
    public async Task Options_name_what_an_upgrade_cannot_be_used_with()
    {
        Skip(EngineKind.Epoll);
        await using Engine portable = new(new EngineOptions { Kind = EngineKind.Portable });
        ProcessUpgrade upgrade = new(UpgradePath);
        ServerOptions options = new() { Engine = portable, Address = "tcp://127.0.0.1:0", Upgrade = upgrade };
        Assert.Contains("gives no sockets to another process: use epoll or io_uring",
            Assert.Single(options.FindMistakes()), StringComparison.Ordinal);
        Assert.Contains("is empty", Assert.Throws<ArgumentException>(() => new ProcessUpgrade("")).Message,
            StringComparison.Ordinal);
        Assert.Contains("abstract name", Assert.Throws<ArgumentException>(() => new ProcessUpgrade("@up")).Message,
            StringComparison.Ordinal);
        Assert.Contains("too long",
            Assert.Throws<ArgumentException>(() => new ProcessUpgrade("/" + new string('x', 200))).Message,
            StringComparison.Ordinal);
        Assert.Throws<ArgumentOutOfRangeException>(
            () => new ProcessUpgrade(UpgradePath) { ReadyLimit = TimeSpan.FromMilliseconds(999) });
        await upgrade.DisposeAsync();
        await Assert.ThrowsAsync<ObjectDisposedException>(() => upgrade.ReadyAsync(Cancel));
    }

    // ------------------------------------------------------------------ both sides

    private static IPEndPoint Free => new(IPAddress.Loopback, 0);

    private static void Skip(params EngineKind[] kinds)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Upgrades of a process need Linux.");
        Assert.SkipWhen(kinds.Contains(EngineKind.Uring) && !UringProbe.Here.IsOffered, UringProbe.Here.Reason);
    }

    private async Task<Side> StartAsync(EngineKind kind, EndPoint[] at, int loops = 1, AcceptOptions? accept = null,
        TimeSpan? readyLimit = null)
    {
        ProcessUpgrade upgrade = new(UpgradePath) { ReadyLimit = readyLimit ?? TimeSpan.FromSeconds(30) };
        Engine engine = new(new EngineOptions { Kind = kind, Loops = loops });
        Side side = new(engine, upgrade, new Server(new ServerOptions
        {
            Engine = engine,
            EndPoints = at,
            Upgrade = upgrade,
            Accept = accept ?? new(),
            OnDiagnosticEvent = notice =>
            {
                lock (_notices) _notices.Add(notice);
            },
        }, static () => new Echo()));
        try
        {
            await side.Server.StartAsync(Cancel);
            return side;
        }
        catch
        {
            await side.DisposeAsync();
            throw;
        }
    }

    private async Task RefusedAsync(string expected)
    {
        NetworkException refused =
            await Assert.ThrowsAsync<NetworkException>(() => StartAsync(EngineKind.Epoll, [Free]));
        Assert.Contains(expected, refused.Message, StringComparison.Ordinal);
        Assert.Contains("whimbrel explain upgrade-failed", refused.Message, StringComparison.Ordinal);
    }

    private async Task NoticedAsync(string expected)
    {
        long end = Environment.TickCount64 + 30_000;
        while (true)
        {
            lock (_notices)
            {
                if (_notices.Any(n => n.Kind == DiagnosticEventKind.Upgrade
                    && n.Message.Contains(expected, StringComparison.Ordinal)))
                    return;
                Assert.True(Environment.TickCount64 < end, string.Join("; ", _notices));
            }

            await Task.Delay(5, Cancel); // tidy: waits because a diagnostic event has no task
        }
    }

    private static async Task<Socket> ConnectAsync(EndPoint to)
    {
        Socket socket = new(to.AddressFamily, SocketType.Stream, ProtocolType.Unspecified);
        try
        {
            await socket.ConnectAsync(to, Cancel);
            return socket;
        }
        catch
        {
            socket.Dispose();
            throw;
        }
    }

    private sealed record Side(Engine Engine, ProcessUpgrade Upgrade, Server Server) : IAsyncDisposable
    {
        internal EndPoint At => Server.EndPoint!;

        public async ValueTask DisposeAsync()
        {
            await Server.DisposeAsync();
            await Upgrade.DisposeAsync();
            await Engine.DisposeAsync();
        }
    }

    private sealed class Back : DatagramHandler
    {
        protected override void OnReceived(ReadOnlySpan<byte> datagram, in DatagramPeer peer) =>
            Send(datagram, in peer);
    }

    private sealed class Echo : Session
    {
        protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);
    }
}
