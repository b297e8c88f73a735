using System.Diagnostics;
using System.Globalization;
using System.Net.Sockets;

namespace Whimbrel.Tool.Tests;

// Processes that replace one another under load: whimbrel serve --upgrade.
[Trait("Runs", "quiet")]
public sealed class UpgradeTests : IDisposable
{
    private readonly TemporaryFolder _folder = new();

    private string Upgrade => Path.Combine(_folder.Path, "upgrade");

    public void Dispose() => _folder.Dispose();

    [Theory]
    [InlineData("epoll", "onelistener", false, 20)]
    [InlineData("uring", "listenerperloop", false, 5)]
    [InlineData("epoll", "listenerperloop", false, 5)]
    [InlineData("uring", "onelistener", true, 5)]
    public async Task A_thousand_connects_a_second_are_all_served_while_processes_replace_one_another(string engine,
        string accept, bool isUnix, int upgrades)
    {
        string[] options = ["--upgrade", Upgrade, "--drain", "1", "--engine", engine, "--accept", accept, "--loops",
            "2", .. isUnix ? ["--unix", Path.Combine(_folder.Path, "listen")] : (string[])[]];
        RunningTool current = await StartAsync(options, engine);
        using CancellationTokenSource end = new();
        Task<Load> load = Load.RunAsync(current.EndPoint, perSecond: 1000, end.Token);
        try
        {
            for (int i = 0; i < upgrades; i++)
            {
                RunningTool next = await RunningTool.Serve("echo", options);
                Assert.Equal(current.Address, next.Address);
                await current.Error.ThatContains("a new process serves from now on");
                Assert.Equal(0, await current.ExitCodeAsync());
                string totals = await current.Out.ThatContains("total:");
                Assert.DoesNotContain("total: 0 connections", totals, StringComparison.Ordinal);
                Assert.EndsWith(" 0 aborted", totals, StringComparison.Ordinal);
                await current.DisposeAsync();
                current = next;
            }
        }
        finally
        {
            await end.CancelAsync();
            Load result = await load;
            TestContext.Current.TestOutputHelper?.WriteLine(result.ToString());
            await current.DisposeAsync();
            Assert.True(result.Failures.IsEmpty, result.ToString());
            Assert.True(result.Served >= 0.9 * 1000 * result.Seconds, result.ToString());
        }
    }

    [Fact]
    public async Task With_TLS_and_a_status_socket_the_new_process_answers_at_both_and_the_old_session_continues()
    {
        string status = Path.Combine(_folder.Path, "echo.status");
        string[] options = ["--upgrade", Upgrade, "--drain", "5", "--status", status, "--tls"];
        await using var old = await RunningTool.Serve("echo", options);
        await using var next = await RunningTool.Serve("echo", options);
        await old.Error.ThatContains("a new process serves from now on");
        await next.Error.ThatContains(string.Create(CultureInfo.InvariantCulture,
            $"the listening socket is that of process {old.Id}"));
        Assert.Equal(old.Address, next.Address);
        Assert.Equal(0, await old.ExitCodeAsync());
        using Socket client = new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        await client.ConnectAsync(new UnixDomainSocketEndPoint(status), TestContext.Current.CancellationToken);
        using StreamReader reader = new(new NetworkStream(client));
        Assert.Contains(string.Create(CultureInfo.InvariantCulture, $"\"pid\":{next.Id}"),
            await reader.ReadLineAsync(TestContext.Current.CancellationToken), StringComparison.Ordinal);
        await next.StopAsync();
        Assert.False(File.Exists(status));
        Assert.False(File.Exists(Upgrade));
    }

    [Fact]
    public async Task A_new_process_that_is_killed_leaves_the_old_one_accepting()
    {
        await using var old = await RunningTool.Serve("echo", "--upgrade", Upgrade);
        // Its other end has the sockets, and is never ready.
        using (Process killed = Process.Start(new ProcessStartInfo("python3", ["-c", """
            import os, signal, socket, sys
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            s.connect(sys.argv[1])
            s.send(b"whimbrel-upgrade 1 %d" % os.getpid())
            while s.recvmsg(4096, 64)[0] != b"end": pass
            os.kill(os.getpid(), signal.SIGKILL)
            """, Upgrade]))!)
            await killed.WaitForExitAsync(TestContext.Current.CancellationToken);
        await old.Error.ThatContains("it ended before it was ready. This process continues to accept.");
        using var peer = old.Connect();
        await peer.SayAsync("x");
        await peer.ReadAsync(2);
        await using var next = await RunningTool.Serve("echo", "--upgrade", Upgrade);
        await old.Error.ThatContains("a new process serves from now on");
    }

    [Fact]
    public async Task A_path_that_cannot_be_used_ends_the_command_with_the_reason()
    {
        await File.WriteAllTextAsync(Upgrade, "notes", TestContext.Current.CancellationToken);
        var (code, _, errors) = await RunningTool.Run(null, "serve", "echo", "--port", "0", "--upgrade", Upgrade);
        Assert.Equal(1, code);
        Assert.Contains("a file is at that path, which is no socket and stays as it is", Assert.Single(errors),
            StringComparison.Ordinal);
    }

    private static async Task<RunningTool> StartAsync(string[] options, string engine)
    {
        try
        {
            return await RunningTool.Serve("echo", options);
        }
        catch (InvalidOperationException e) when (engine == "uring"
            && e.Message.Contains("no-io-uring", StringComparison.Ordinal))
        {
            Assert.Skip(e.Message);
            throw;
        }
    }
}
