using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Text.Json;

namespace Whimbrel.Conformance;

/// <summary>The socket of ServerOptions.StatusPath: permissions, content, while nothing else responds, and ownership of
/// the path. Real engines.</summary>
public sealed class StatusTests : IAsyncLifetime
{
    private static readonly TimeSpan s_deadline = TimeSpan.FromSeconds(20);

    private readonly string _folder = Directory.CreateTempSubdirectory("whimbrel-").FullName;
    private Engine _engine = null!;
    private Server _server = null!;

    private string Path => System.IO.Path.Combine(_folder, "a.status");

    private static CancellationToken End => TestContext.Current.CancellationToken;

    public async ValueTask InitializeAsync()
    {
        _engine = new Engine(new EngineOptions { Loops = 2, OnDiagnosticEvent = static _ => { } });
        _server = MakeServer(Path);
        await _server.StartAsync(End);
    }

    public async ValueTask DisposeAsync()
    {
        await _server.DisposeAsync();
        await _engine.DisposeAsync();
        Directory.Delete(_folder, recursive: true);
    }

    private sealed class Echo : Session
    {
        protected override void OnReceived(ReadOnlySpan<byte> data)
        {
            if (data[0] == 'x') ReplaceEndPoints(new SpitefulEndPoint(), null);
            if (data[0] == 'l') ReplaceEndPoints(new DnsEndPoint(new string('n', 5000), 1), null);
            Send(data);
        }
    }

    private sealed class SpitefulEndPoint : EndPoint
    {
        public override string ToString() => throw new InvalidOperationException("no text");
    }

    private Server MakeServer(string? path) =>
        new(new ServerOptions
        {
            Engine = _engine,
            EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
            StatusPath = path,
            Limits = new() { SendBytes = 64 << 20 }
        }, static () => new Echo());

    private static async Task<JsonElement> ReadAsync(string path)
    {
        using Socket socket = new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        await socket.ConnectAsync(new UnixDomainSocketEndPoint(path), End).AsTask().WaitAsync(s_deadline, End);
        await using NetworkStream stream = new(socket);
        using StreamReader reader = new(stream, Encoding.UTF8);
        string all = await reader.ReadToEndAsync(End).WaitAsync(s_deadline, End);
        Assert.Equal(all.Length - 1, all.IndexOf('\n', StringComparison.Ordinal));
        return JsonDocument.Parse(all).RootElement;
    }

    private static async Task<Socket> ConnectAsync(Server server)
    {
        Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        await socket.ConnectAsync(server.EndPoint!, End);
        return socket;
    }

    private static async Task EchoAsync(Socket socket, string text)
    {
        await socket.SendAsync(Encoding.ASCII.GetBytes(text), End);
        Assert.True(await socket.ReceiveAsync(new byte[text.Length], End) > 0);
    }

    private static async Task<JsonElement> UntilAsync(string path, Func<JsonElement, bool> isSo)
    {
        using CancellationTokenSource end = CancellationTokenSource.CreateLinkedTokenSource(End);
        end.CancelAfter(s_deadline);
        JsonElement status;
        // tidy: waits because the status is polled
        while (!isSo(status = await ReadAsync(path))) await Task.Delay(5, end.Token);
        return status;
    }

    [Fact]
    public async Task A_connection_gets_one_line_about_engine_loops_and_servers()
    {
        using Socket one = await ConnectAsync(_server), two = await ConnectAsync(_server);
        await EchoAsync(one, "0123456789");
        await EchoAsync(two, "0123456789");
        JsonElement status = await UntilAsync(Path,
            static s => s.GetProperty("servers")[0].GetProperty("bytesSent").GetInt64() == 20);
        Assert.Equal(1, status.GetProperty("whimbrel").GetInt32());
        Assert.Equal(Environment.ProcessId, status.GetProperty("pid").GetInt32());
        Assert.Equal(_engine.KindName, status.GetProperty("engine").GetProperty("kind").GetString());
        JsonElement server = status.GetProperty("servers")[0];
        Assert.Equal(_server.EndPoint!.ToString(), server.GetProperty("addresses")[0].GetString());
        Assert.Equal((2, 2L, 20L), (server.GetProperty("sessions").GetInt32(),
            server.GetProperty("accepted").GetInt64(), server.GetProperty("bytesReceived").GetInt64()));
        Assert.True(server.GetProperty("accepting").GetBoolean());
        JsonElement[] loops = [.. status.GetProperty("loops").EnumerateArray()];
        Assert.Equal([0, 1], loops.Select(static l => l.GetProperty("index").GetInt32()));
        Assert.Equal([1, 1], loops.Select(static l => l.GetProperty("connections").GetInt32()));
        Assert.All(loops, static l => Assert.Equal(10, l.GetProperty("bytesReceived").GetInt64()));
        // No callback blocks: "running" is absent.
        Assert.All(loops, static l => Assert.False(l.TryGetProperty("running", out _)));
    }

    [Fact]
    public async Task Several_servers_of_one_engine_are_all_listed()
    {
        await using Server second = MakeServer(null);
        await second.StartAsync(End);
        JsonElement status = await ReadAsync(Path);
        Assert.Equal([_server.EndPoint!.ToString(), second.EndPoint!.ToString()], status.GetProperty("servers")
            .EnumerateArray().Select(static s => s.GetProperty("addresses")[0].GetString()));
        await second.StopAsync();
        Assert.Equal(1, (await ReadAsync(Path)).GetProperty("servers").GetArrayLength());
    }

    [Fact]
    public async Task Slow_sessions_are_named_with_what_waits_for_them()
    {
        using Socket slow = await ConnectAsync(_server);
        await UntilAsync(Path, static s => s.GetProperty("servers")[0].GetProperty("sessions").GetInt32() == 1);
        // More than any pair of socket buffers holds.
        _server.Broadcast(new byte[32 << 20]);
        JsonElement server = (await UntilAsync(Path, static s => s.GetProperty("servers")[0].GetProperty("slowest")
            .GetArrayLength() == 1)).GetProperty("servers")[0];
        JsonElement session = server.GetProperty("slowest")[0];
        Assert.Equal(slow.LocalEndPoint!.ToString(), session.GetProperty("peer").GetString());
        Assert.InRange(session.GetProperty("bytesPending").GetInt64(), 1, 32 << 20);
        Assert.Equal(64 << 20, session.GetProperty("limitBytes").GetInt32());
        Assert.InRange(server.GetProperty("bytesPending").GetInt64(), 1, 32 << 20);
    }

    [Fact]
    public async Task The_ten_slowest_sessions_are_named_and_all_bytes_counted()
    {
        List<Socket> slow = [];
        for (int i = 0; i < 11; i++) slow.Add(await ConnectAsync(_server));
        await UntilAsync(Path, static s => s.GetProperty("servers")[0].GetProperty("sessions").GetInt32() == 11);
        _server.Broadcast(new byte[32 << 20]);
        JsonElement server = (await UntilAsync(Path, static s => s.GetProperty("servers")[0].GetProperty("slowest")
            .GetArrayLength() == 10)).GetProperty("servers")[0];
        long named = server.GetProperty("slowest").EnumerateArray()
            .Sum(static s => s.GetProperty("bytesPending").GetInt64());
        Assert.InRange(server.GetProperty("bytesPending").GetInt64(), named + 1, 11L * (32 << 20));
        slow.ForEach(static s => s.Dispose());
    }

    [Theory]
    [InlineData(31, 32, 0)] // and the server of this class
    [InlineData(32, 32, 1)]
    public async Task Up_to_32_servers_are_listed_and_the_others_counted(int more, int listed, int leftOut)
    {
        List<Server> servers = [];
        for (int i = 0; i < more; i++)
        {
            servers.Add(MakeServer(null));
            await servers[^1].StartAsync(End);
        }

        JsonElement status = await ReadAsync(Path);
        Assert.Equal((listed, leftOut), (status.GetProperty("servers").GetArrayLength(),
            status.GetProperty("serversLeftOut").GetInt32()));
        foreach (Server server in servers) await server.DisposeAsync();
    }

    [Theory]
    [InlineData("x", "?")]
    [InlineData("l", null)]
    public async Task An_end_point_of_the_programs_own_neither_breaks_the_line_nor_makes_it_endless(string command,
        string? expected)
    {
        using Socket socket = await ConnectAsync(_server);
        await EchoAsync(socket, command);
        _server.Broadcast(new byte[32 << 20]);
        JsonElement status = await UntilAsync(Path,
            static s => s.GetProperty("servers")[0].GetProperty("slowest").GetArrayLength() == 1);
        string peer = status.GetProperty("servers")[0].GetProperty("slowest")[0].GetProperty("peer").GetString()!;
        if (expected is not null) Assert.Equal(expected, peer);
        Assert.InRange(peer.Length, 1, 200);
    }

    [Fact]
    public async Task The_status_answers_while_loops_and_pool_are_blocked_and_names_the_cause()
    {
        await ReadAsync(Path);
        using ManualResetEventSlim gate = new();
        using CountdownEvent held = new(2);
        foreach (int index in (int[])[0, 1])
        {
            _engine.GetLoop(index).Post(() =>
            {
                held.Signal();
                gate.Wait();
            });
        }

        held.Wait(End);
        try
        {
            using BusyPool busy = new();
            // This test may run on a pool thread, and keeps it: the pool gets no thread back.
            string line = "";
            Thread asks = new(() =>
            {
                do line = AskHere(Path);
                // The other connection may be listed first.
                while (!JsonDocument.Parse(line).RootElement.GetProperty("loops")[0].TryGetProperty("running", out _));
            });
            asks.Start();
            bool answered = asks.Join(s_deadline);
            Assert.True(busy.IsBusy, "the pool was not blocked");
            gate.Set();
            Assert.True(answered, "no answer");
            Assert.Contains("a posted action", JsonDocument.Parse(line).RootElement.GetProperty("loops")[0]
                .GetProperty("running").GetString(), StringComparison.Ordinal);
        }
        finally
        {
            gate.Set();
        }
    }

    private static string AskHere(string path)
    {
        using Socket socket = new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        socket.Connect(new UnixDomainSocketEndPoint(path));
        byte[] buffer = new byte[1 << 20];
        int length = 0, count;
        while ((count = socket.Receive(buffer.AsSpan(length))) > 0) length += count;
        return Encoding.UTF8.GetString(buffer, 0, length);
    }

    [Fact]
    public async Task Peers_that_neither_read_nor_close_block_no_other()
    {
        List<Socket> idle = [];
        try
        {
            for (int i = 0; i < 50; i++)
            {
                Socket socket = new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
                idle.Add(socket);
                await socket.ConnectAsync(new UnixDomainSocketEndPoint(Path), End).AsTask().WaitAsync(s_deadline, End);
                try
                {
                    // The peer does not read this.
                    if (i % 2 == 0) await socket.SendAsync(new byte[1000], End);
                }
                catch (SocketException)
                {
                    // It was served, and the socket closed.
                }
            }

            await ReadAsync(Path);
            Assert.Equal(0, _engine.UserExceptionCount);
        }
        finally
        {
            foreach (Socket socket in idle) socket.Dispose();
        }
    }

    [Fact]
    public async Task Only_the_owner_may_connect_and_the_path_exists_while_the_server_is_started()
    {
        if (!OperatingSystem.IsWindows())
            Assert.Equal(UnixFileMode.UserRead | UnixFileMode.UserWrite, File.GetUnixFileMode(Path));
        await _server.RestartAsync(TimeSpan.Zero);
        await ReadAsync(Path);
        if (!OperatingSystem.IsWindows())
            Assert.Equal(UnixFileMode.UserRead | UnixFileMode.UserWrite, File.GetUnixFileMode(Path));
        await _server.StopAsync();
        Assert.False(File.Exists(Path));
        await _server.StartAsync(End);
        await ReadAsync(Path);
    }

    [Fact]
    public async Task A_stale_path_is_replaced()
    {
        string path = System.IO.Path.Combine(_folder, "left.status");
        Socket dead = new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        dead.Bind(new UnixDomainSocketEndPoint(path));
        // Simulates a killed process: .NET deletes the path of a disposed socket, so the path is moved meanwhile.
        string kept = path + ".kept";
        File.Move(path, kept);
        dead.Dispose();
        File.Move(kept, path);
        await using Server second = MakeServer(path);
        await second.StartAsync(End);
        await ReadAsync(path);
    }

    [Fact]
    public async Task A_foreign_file_at_the_path_stays_and_the_start_fails_with_the_reason()
    {
        string file = System.IO.Path.Combine(_folder, "file");
        await File.WriteAllTextAsync(file, "somebody's", End);
        await using Server onFile = MakeServer(file);
        NetworkException fault = await Assert.ThrowsAsync<NetworkException>(async () => await onFile.StartAsync(End));
        Assert.Equal(ErrorCategory.Bind, fault.Error.Category);
        Assert.Contains($"ServerOptions.StatusPath: Cannot listen on {file}: already in use", fault.Message,
            StringComparison.Ordinal);
        Assert.Equal("somebody's", await File.ReadAllTextAsync(file, End));
        Assert.False(onFile.IsAccepting);

        await using Server onServer = MakeServer(Path);
        fault = await Assert.ThrowsAsync<NetworkException>(async () => await onServer.StartAsync(End));
        Assert.Contains("already in use", fault.Message, StringComparison.Ordinal);
        Assert.Equal(1, (await ReadAsync(Path)).GetProperty("servers").GetArrayLength());

        await using Server nowhere = MakeServer(System.IO.Path.Combine(_folder, "no", "folder.status"));
        fault = await Assert.ThrowsAsync<NetworkException>(async () => await nowhere.StartAsync(End));
        Assert.Contains("the folder of the Unix path does not exist", fault.Message, StringComparison.Ordinal);
        await _engine.PostAsync(static () => { });
    }

    [Theory]
    [InlineData("", "StatusPath is empty")]
    [InlineData("@name", "StatusPath @name is an abstract name")]
    [InlineData("/LONG", "is too long for a Unix socket")]
    public async Task A_path_that_no_socket_can_have_is_a_mistake_of_the_options(string path, string mistake)
    {
        await using Server server = MakeServer(path.Replace("LONG", new string('l', 200), StringComparison.Ordinal));
        ArgumentException fault = await Assert.ThrowsAsync<ArgumentException>(async () => await server.StartAsync(End));
        Assert.Contains(mistake, fault.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task The_thread_of_the_status_socket_ends_with_the_server()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The test counts threads in /proc.");
        Assert.Equal(1, CountThreads());
        await _server.StopAsync();
        using CancellationTokenSource end = CancellationTokenSource.CreateLinkedTokenSource(End);
        end.CancelAfter(s_deadline);
        // tidy: waits because the end of a thread raises no event
        while (CountThreads() > 0) await Task.Delay(5, end.Token);
    }

    private static int CountThreads()
    {
        int count = 0;
        foreach (string task in Directory.EnumerateDirectories(string.Create(CultureInfo.InvariantCulture,
            $"/proc/{Environment.ProcessId}/task")))
        {
            try
            {
                if (File.ReadAllText(task + "/comm").StartsWith("whimbrel-status", StringComparison.Ordinal)) count++;
            }
            catch (Exception e) when (e is IOException or UnauthorizedAccessException)
            {
                // The thread has just ended.
            }
        }

        return count;
    }
}
