using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Whimbrel.Tool.Tests;

public class DatagramTests
{
    private static UdpClient Plain(string address = "127.0.0.1") => new(new IPEndPoint(IPAddress.Parse(address), 0));

    private static Task<UdpReceiveResult> ReceiveAsync(UdpClient client) =>
        Deadline.Within(async c => await client.ReceiveAsync(c), () => "a datagram");

    // A separate group for each test, and a port that was free a moment ago.
    private static string NewGroup()
    {
        using var port = Plain();
        return $"239.77.{Random.Shared.Next(1, 255)}.{Random.Shared.Next(1, 255)}:"
            + $"{((IPEndPoint)port.Client.LocalEndPoint!).Port}";
    }

    private static UdpClient SenderTo(string group, out IPEndPoint to, string from = "127.0.0.1")
    {
        var client = Plain(from);
        client.Client.SetSocketOption(SocketOptionLevel.IP, SocketOptionName.MulticastInterface,
            IPAddress.Loopback.GetAddressBytes());
        client.MulticastLoopback = true;
        to = IPEndPoint.Parse(group);
        return client;
    }

    [Fact]
    public async Task Every_datagram_comes_back_as_it_was()
    {
        await using var tool = await RunningTool.Serve("udp");
        using var peer = Plain();
        var random = new Random(1);
        long bytes = 0;
        foreach (var size in (int[])[0, 1, 32, 1472, 9000, 65507,
            .. Enumerable.Range(0, 30).Select(_ => random.Next(3000))])
        {
            var data = new byte[size];
            random.NextBytes(data);
            await peer.SendAsync(data, (IPEndPoint)tool.EndPoint, TestContext.Current.CancellationToken);
            var answer = await ReceiveAsync(peer);
            Assert.Equal(data, answer.Buffer);
            Assert.Equal(tool.EndPoint, answer.RemoteEndPoint);
            bytes += size;
        }

        Assert.Equal($"total: 36 datagrams in, {bytes} bytes in, 36 datagrams out, {bytes} bytes out, 0 dropped by the "
            + $"system, 0 not sent", await tool.StopAsync());
    }

    [Theory]
    [InlineData("udp://127.0.0.1:PORT")]
    [InlineData("--udp", "127.0.0.1:PORT")]
    [InlineData("udp://localhost:PORT")]
    public async Task Connect_sends_a_datagram_for_each_line_and_prints_a_line_for_each(params string[] words)
    {
        await using var server = await RunningTool.Serve("udp", "--loops", "1", "--listen", "udp://127.0.0.1:0");
        var port = ((IPEndPoint)server.EndPoint).Port.ToString(CultureInfo.InvariantCulture);
        var (code, output, errors) = await RunningTool.Run("one\n\nthree ünïcode\nlast",
            ["connect", .. words.Select(w => w.Replace("PORT", port, StringComparison.Ordinal))]);
        Assert.Equal(["one", "", "three ünïcode", "last"], output);
        Assert.Equal("4 datagrams out, 4 in", errors[^1]);
        Assert.Equal(0, code);
    }

    [Fact]
    public async Task Both_ends_take_a_unix_path()
    {
        var path = Path.Combine(Path.GetTempPath(), $"whimbrel-{Guid.NewGuid():n}.sock");
        await using var server = await RunningTool.Serve("udp", "--unix", path);
        var (code, output, errors) = await RunningTool.Run("hello\n", "connect", "--udp", "--unix", path);
        Assert.Equal("hello", Assert.Single(output));
        Assert.Equal("1 datagrams out, 1 in", errors[^1]);
        Assert.Equal(0, code);
        await server.StopAsync();
        Assert.False(File.Exists(path));
    }

    [Fact]
    public async Task Connect_reports_that_no_socket_receives_there()
    {
        using var taken = Plain();
        var there = taken.Client.LocalEndPoint!.ToString();
        taken.Dispose();
        var (code, output, errors) = await RunningTool.Run("hello\n", "connect", $"udp://{there}");
        Assert.Equal(1, code);
        Assert.Empty(output);
        Assert.Contains(errors, static e => e.Contains("No socket receives at that port", StringComparison.Ordinal));
    }

    [Fact]
    public async Task Connect_prints_what_a_foreign_peer_sends_until_it_is_asked_to_end()
    {
        using var peer = Plain();
        await using var client = RunningTool.Start("connect", $"udp://{peer.Client.LocalEndPoint}");
        await client.Error.ThatContains("datagrams to 127.0.0.1:");
        await client.Input.WriteLineAsync("are you there?");
        await client.Input.FlushAsync(TestContext.Current.CancellationToken);
        var question = await ReceiveAsync(peer);
        Assert.Equal("are you there?", Encoding.UTF8.GetString(question.Buffer));
        await peer.SendAsync("yes"u8.ToArray(), question.RemoteEndPoint, TestContext.Current.CancellationToken);
        await peer.SendAsync(new byte[] { 0, 255, 7 }, question.RemoteEndPoint, TestContext.Current.CancellationToken);
        Assert.Equal("yes", await client.Out.NextAsync());
        Assert.Equal("0x00ff07", await client.Out.NextAsync());
        await client.SignalAsync("TERM");
        await client.Error.ThatContains("1 datagrams out, 2 in");
        Assert.Equal(0, await client.ExitCodeAsync());
    }

    [Fact]
    public async Task A_datagram_that_claims_to_come_from_the_server_itself_is_not_answered()
    {
        await using var tool = await RunningTool.Serve("udp");
        int port = ((IPEndPoint)tool.EndPoint).Port;
        using (var raw = OpenRaw())
        {
            // The UDP header is written by hand: source, destination, length, no checksum.
            byte[] forged = [(byte)(port >> 8), (byte)port, (byte)(port >> 8), (byte)port, 0, 12, 0, 0, 1, 2, 3, 4];
            for (var i = 0; i < 3; i++) raw.SendTo(forged, tool.EndPoint);
        }

        // Sent after them: the response shows that they have been processed.
        using var honest = Plain();
        await honest.SendAsync("x"u8.ToArray(), (IPEndPoint)tool.EndPoint, TestContext.Current.CancellationToken);
        Assert.Equal("x"u8.ToArray(), (await ReceiveAsync(honest)).Buffer);
        Assert.StartsWith("total: 4 datagrams in, 13 bytes in, 1 datagrams out, 1 bytes out", await tool.StopAsync(),
            StringComparison.Ordinal);
    }

    private static Socket OpenRaw()
    {
        try
        {
            var raw = new Socket(AddressFamily.InterNetwork, SocketType.Raw, ProtocolType.Udp);
            raw.Bind(new IPEndPoint(IPAddress.Loopback, 0));
            return raw;
        }
        catch (SocketException e)
        {
            Assert.Skip($"Needs raw sockets (CAP_NET_RAW): {e.Message}");
            throw;
        }
    }

    [Fact]
    public async Task A_source_gets_as_many_answers_a_second_as_it_may_ask_for()
    {
        await using var tool = await RunningTool.Serve("udp", "--source-rate", "5");
        using var greedy = Plain();
        for (var i = 0; i < 200; i++)
            await greedy.SendAsync(new byte[] { (byte)i }, (IPEndPoint)tool.EndPoint,
                TestContext.Current.CancellationToken);
        for (var i = 0; i < 5; i++) Assert.Equal([(byte)i], (await ReceiveAsync(greedy)).Buffer);
        using var other = Plain("127.0.0.2");
        await other.SendAsync("x"u8.ToArray(), (IPEndPoint)tool.EndPoint, TestContext.Current.CancellationToken);
        Assert.Equal("x"u8.ToArray(), (await ReceiveAsync(other)).Buffer);
        var words = (await tool.StopAsync()).Split(' ');
        Assert.Equal("limited", words[^1]);
        Assert.InRange(int.Parse(words[^2], CultureInfo.InvariantCulture), 1, 195);
    }

    [Fact]
    public async Task A_group_is_joined_by_one_process_and_sent_to_by_another()
    {
        var group = NewGroup();
        await using var sender = RunningTool.Start("serve", "multicast", group, "--rate", "200", "--interface",
            "127.0.0.1");
        await sender.Out.ThatContains($"sending to {group} from port ");
        await sender.Error.ThatContains("200 datagrams of 32 bytes a second; loopback is on, so members on this "
            + "machine get it too; it stays on this network.");
        var (code, output, errors) = await RunningTool.Run(null, "join", group, "--interface", "127.0.0.1",
            "--count", "20");
        Assert.Equal(0, code);
        Assert.Equal(21, output.Count);
        var first = output[0][(output[0].LastIndexOf(' ') + 1)..];
        for (var i = 0; i < 20; i++)
            Assert.Matches($@"^\d+\.\d+\.\d+\.\d+:\d+ 32 bytes: message "
                + $@"{int.Parse(first, CultureInfo.InvariantCulture) + i}$", output[i]);
        Assert.Equal("total: 20 datagrams from 1 sources, 0 missing by their numbers, 0 dropped by the system, 0 not "
            + "printed", output[^1]);
        Assert.Contains(errors,
            e => e == $"joined {group[..group.IndexOf(':', StringComparison.Ordinal)]} on 127.0.0.1");
        await sender.SignalAsync("TERM");
        Assert.Matches(@"^total: 0 datagrams in, 0 bytes in, \d+ datagrams out, \d+ bytes out, 0 dropped by the "
            + @"system, 0 not sent$", await sender.Out.ThatContains("total:"));
        Assert.Equal(0, await sender.ExitCodeAsync());
    }

    [Fact]
    public async Task Join_shows_senders_and_data_and_only_of_the_named_source()
    {
        var group = NewGroup();
        await using var member = RunningTool.Start("join", group, "--interface", "127.0.0.1", "--source", "127.0.0.2");
        await member.Error.ThatContains("joined ");
        using var unwanted = SenderTo(group, out var to);
        using var wanted = SenderTo(group, out _, "127.0.0.2");
        await unwanted.SendAsync("no"u8.ToArray(), to, TestContext.Current.CancellationToken);
        await wanted.SendAsync("a\u001b[2Jb"u8.ToArray(), to, TestContext.Current.CancellationToken);
        await wanted.SendAsync("text"u8.ToArray(), to, TestContext.Current.CancellationToken);
        var from = wanted.Client.LocalEndPoint;
        Assert.Equal($"{from} 6 bytes: 0x611b5b324a62", await member.Out.NextAsync());
        Assert.Equal($"{from} 4 bytes: text", await member.Out.NextAsync());
        await member.SignalAsync("TERM");
        await member.Out.ThatContains("total: 2 datagrams from 1 sources");
        Assert.Equal(0, await member.ExitCodeAsync());
    }

    [Fact]
    public async Task Numbers_that_never_came_are_counted_as_missing()
    {
        var group = NewGroup();
        await using var member = RunningTool.Start("join", group, "--interface", "127.0.0.1", "--count",
            "5", "--quiet");
        await member.Error.ThatContains("joined ");
        using var sender = SenderTo(group, out var to);
        // Two are missing, one is late, and the last one has no number.
        foreach (var message in (byte[][])[Numbered(1), Numbered(4), Numbered(6), Numbered(3), "no number"u8.ToArray()])
            await sender.SendAsync(message, to, TestContext.Current.CancellationToken);
        Assert.Equal("total: 5 datagrams from 1 sources, 2 missing by their numbers, 0 dropped by the system, 0 not "
            + "printed", await member.Out.NextAsync());
        Assert.Equal(0, await member.ExitCodeAsync());
    }

    private static byte[] Numbered(ulong sequence)
    {
        var message = new byte[32];
        BitConverter.TryWriteBytes(message, sequence);
        for (var k = 0; k < 3; k++)
            BitConverter.TryWriteBytes(message.AsSpan(8 + 8 * k),
                Mix(sequence ^ unchecked(0x9E3779B97F4A7C15 * (ulong)(k + 1))));
        return message;
    }

    private static ulong Mix(ulong z)
    {
        unchecked
        {
            z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
            z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
            return z ^ (z >> 31);
        }
    }

    [Theory]
    [InlineData("udp", "--port", "0", "--stats")]
    [InlineData("multicast", "239.77.0.1:7", "--hops", "0")]
    public async Task It_ends_by_itself_after_the_time_it_was_given(string kind, params string[] options)
    {
        var (code, output, _) = await RunningTool.Run(null, ["serve", kind, .. options, "--for", "1.2"]);
        Assert.Equal(0, code);
        Assert.StartsWith("total: 0 datagrams in", output[^1], StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("A group is missing. Right would be: whimbrel serve multicast GROUP[:PORT]", "serve", "multicast")]
    [InlineData("10.1.1.1 is no multicast group", "join", "10.1.1.1")]
    [InlineData("'239.1.1' is no group; right would be 239.1.1.1:1111", "join", "239.1.1")]
    [InlineData("'[ff15::1' is no group", "join", "[ff15::1")]
    [InlineData("'70000' is no port of a group: that is a number from 1 to 65535.", "join", "239.1.1.1:70000")]
    [InlineData("'0' is no port of a group", "join", "[ff15::1]:0")]
    [InlineData("Source ff::1 and group 239.1.1.1 are of different families.", "join", "239.1.1.1",
        "--source", "ff::1")]
    [InlineData("--source takes an IP address, not 'x'.", "join", "239.1.1.1", "--source", "x")]
    [InlineData("'udp://localhost' is no address: the port is missing; right would be udp://localhost:80.", "connect",
        "udp://localhost")]
    [InlineData("'tcp://localhost:7' is a stream; right would be udp://localhost:7.", "connect", "--udp",
        "tcp://localhost:7")]
    [InlineData("is an address for datagrams: use it with whimbrel serve udp", "serve", "echo", "--listen",
        "udp://127.0.0.1:7")]
    [InlineData("'tcp://127.0.0.1:7' is a stream; right would be udp://127.0.0.1:7.", "serve", "udp", "--listen",
        "tcp://127.0.0.1:7")]
    [InlineData("--hops takes a number from 0 to 255, not '256'.", "serve", "multicast", "239.1.1.1", "--hops", "256")]
    [InlineData("Give only one of --listen, --port and --unix.", "serve", "udp", "--port", "0", "--unix", "x")]
    public Task Wrong_arguments_give_one_line_that_says_what_is_right(string expected, params string[] arguments) =>
        RunningTool.AssertRefused(expected, "whimbrel ", arguments);

    [Fact]
    public async Task An_interface_that_is_not_there_is_named()
    {
        var (code, output, errors) = await RunningTool.Run(null, "join", "239.77.0.1", "--interface", "nonesuch0");
        Assert.Equal(1, code);
        Assert.DoesNotContain(output, static o => o.StartsWith("joined", StringComparison.Ordinal));
        Assert.Contains(errors, static e => e.Contains("'nonesuch0'", StringComparison.Ordinal));
    }
}
