using System.Text;

namespace Whimbrel.Tool.Tests;

public class ChatTests
{
    [Fact]
    public async Task A_line_is_shown_to_the_others_with_the_name()
    {
        await using var tool = await RunningTool.Serve("chat");
        using var anna = await EnterAsync(tool, "anna");
        using var bert = await EnterAsync(tool, "bert");
        await anna.SayAsync("hello, ünïcode ✓\r");
        Assert.Equal("anna: hello, ünïcode ✓", await bert.Lines.ThatContains(": "));
        await bert.SayAsync("hi");
        Assert.Equal("bert: hi", await anna.Lines.ThatContains(": "));
    }

    [Fact]
    public async Task Joins_renames_and_leaves_are_announced()
    {
        await using var tool = await RunningTool.Serve("chat");
        using var anna = await EnterAsync(tool, "anna");
        using (var bert = await EnterAsync(tool, "bert"))
        {
            Assert.Matches(@"^\* guest\d+ joined$", await anna.Lines.ThatContains("joined"));
            Assert.Matches(@"^\* guest\d+ is bert now$", await anna.Lines.ThatContains("bert"));
            await bert.SayAsync("/quit");
            await bert.Lines.ThatContains("* goodbye.");
            Assert.Null(await bert.Lines.NextAsync());
        }
        Assert.Equal("* bert left", await anna.Lines.NextAsync());
    }

    [Fact]
    public async Task A_name_belongs_to_one_at_a_time()
    {
        await using var tool = await RunningTool.Serve("chat");
        using var anna = await EnterAsync(tool, "anna");
        using var other = tool.Connect();
        await other.SayAsync("/name Anna");
        await other.Lines.ThatContains("* Anna is taken.");
        await other.SayAsync("/name a b");
        await other.Lines.ThatContains("a name has 1 to 20");
        await anna.SayAsync("/quit");
        await other.Lines.ThatContains("* anna left");
        await other.SayAsync("/name Anna");
        await other.Lines.ThatContains("* you are Anna now.");
        await other.SayAsync("/who");
        Assert.Equal("* 1 here: Anna", await other.Lines.NextAsync());
        await other.SayAsync("/dance");
        Assert.StartsWith("* /dance is no command here.", await other.Lines.NextAsync(), StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_line_in_pieces_is_one_line_and_lines_in_one_piece_are_several()
    {
        await using var tool = await RunningTool.Serve("chat");
        using var anna = await EnterAsync(tool, "anna");
        using var bert = await EnterAsync(tool, "bert");
        foreach (var piece in Encoding.UTF8.GetBytes("naïve\n").Chunk(1)) await anna.SendAsync(piece);
        await anna.SendAsync("one\r\n\ntwo\nthr"u8.ToArray());
        await anna.SendAsync("ee\n"u8.ToArray());
        foreach (var expected in (string[])["anna: naïve", "anna: one", "anna: two", "anna: three"])
            Assert.Equal(expected, await bert.Lines.NextAsync());
    }

    [Fact]
    public async Task Control_characters_cannot_steer_the_terminals_of_others()
    {
        await using var tool = await RunningTool.Serve("chat");
        using var anna = await EnterAsync(tool, "anna");
        using var bert = await EnterAsync(tool, "bert");
        await anna.SayAsync("a\u001b[2J\u0007\u009b31m\tb\u202ec\r\u2028d");
        Assert.Equal("anna: a[2J31m bcd", await bert.Lines.NextAsync());
        await anna.SendAsync(new byte[] { (byte)'x', 0xff, 0xc3, (byte)'\n' });
        Assert.Equal("anna: x\ufffd\ufffd", await bert.Lines.NextAsync());
    }

    [Theory]
    [InlineData("\n")]
    [InlineData("")]
    public async Task A_client_with_too_long_a_line_gets_a_message_and_is_disconnected(string end)
    {
        await using var tool = await RunningTool.Serve("chat");
        using var anna = await EnterAsync(tool, "anna");
        using var bert = await EnterAsync(tool, "bert");
        var most = new string('m', 4096);
        await anna.SayAsync(most);
        Assert.Equal($"anna: {most}", await bert.Lines.NextAsync());
        await anna.SendAsync(Encoding.UTF8.GetBytes(new string('x', 4098) + end));
        await anna.Lines.ThatContains("* a line has at most 4096 bytes. Goodbye.");
        Assert.Null(await anna.Lines.NextAsync());
        Assert.Equal("* anna left", await bert.Lines.NextAsync());
    }

    [Fact]
    public async Task A_flood_is_slowed_down_whole_and_no_other_client_waits()
    {
        await using var tool = await RunningTool.Serve("chat");
        using var flood = await EnterAsync(tool, "flood");
        using var anna = await EnterAsync(tool, "anna");
        using var bert = await EnterAsync(tool, "bert");
        const int lines = 100;
        await flood.SendAsync(
            Encoding.UTF8.GetBytes(string.Concat(Enumerable.Range(0, lines).Select(i => $"line {i}\n"))));
        flood.ShutdownSend();
        await bert.Lines.ThatContains("flood: line 0");
        await anna.SayAsync("may I?");

        // About forty of the hundred lines pass at once; the others take three seconds, and anna does not wait for
        // them.
        var before = 0;
        while (await bert.Lines.NextAsync() != "anna: may I?") before++;
        Assert.InRange(before, 0, lines - 2);
        for (var i = before + 1; i < lines; i++) Assert.Equal($"flood: line {i}", await bert.Lines.NextAsync());
        Assert.Equal("* flood left", await bert.Lines.NextAsync());
    }

    [Fact]
    public async Task A_peer_that_never_reads_does_not_affect_others()
    {
        await using var tool = await RunningTool.Serve("chat");
        using var dead = await EnterAsync(tool, "dead");
        using var listener = await EnterAsync(tool, "listener");
        var text = new string('x', 4000);
        for (var speaker = 0; speaker < 20; speaker++)
        {
            using var peer = await EnterAsync(tool, $"s{speaker}");
            for (var i = 0; i < 30; i++) await peer.SayAsync($"{i} {text}");
            for (var i = 0; i < 30; i++) await listener.Lines.ThatContains($"s{speaker}: {i} x");
        }
        dead.Dispose();
        await listener.SayAsync("/who");
        await listener.Lines.ThatContains("listener");
        await tool.StopAsync();
    }

    // Connects, sets the name, and waits until everything before it was received.
    private static async Task<Peer> EnterAsync(RunningTool tool, string name)
    {
        var peer = tool.Connect();
        await peer.SayAsync($"/name {name}");
        Assert.Matches(@"^\* welcome, guest\d+\. \d+ here\. ", await peer.Lines.NextAsync());
        await peer.Lines.ThatContains($"* you are {name} now.");
        return peer;
    }
}
