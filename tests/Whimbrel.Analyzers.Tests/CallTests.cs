namespace Whimbrel.Analyzers.Tests;

// WHIM0003, WHIM0004 and WHIM0005.
public sealed class CallTests
{
    [Theory]
    [InlineData("for (int i = 0; i < 9; i++) session.Send(\"x\")", "WHIM0003 session.Send(\"x\")")]
    [InlineData("foreach (int i in new int[9]) { if (i > 1) session?.Send(\"x\"); }", "WHIM0003 .Send(\"x\")")]
    [InlineData("while (true) session.Send(new byte[1])", "WHIM0003 session.Send(new byte[1])")]
    public async Task A_send_in_a_loop_with_an_ignored_result_is_reported(string statement, string expected) =>
        Assert.Equal([expected], await Analysis.OfAsync(Analysis.Body(statement)));

    [Theory]
    [InlineData("session.Send(\"x\")")]
    [InlineData("for (int i = 0; i < 9; i++) _ = session.Send(\"x\")")]
    [InlineData("for (int i = 0; i < 9; i++) if (session.Send(\"x\") != SendResult.Queued) break")]
    [InlineData("for (int i = 0; i < 9; i++) await session.SendAsync(\"x\")")]
    [InlineData("foreach (Session one in new List<Session>()) one.Send(\"x\")")]
    [InlineData(
        "for (int i = 0; i < 9; i++) { Session one = web.GetHashCode() == i ? session : null!; one?.Send(\"x\"); }")]
    [InlineData("for (int i = 0; i < 9; i++) loop.Post(() => { session.Send(\"x\"); })")]
    public async Task A_send_with_a_checked_result_or_one_per_session_is_not_reported(string statement) =>
        Assert.Empty(await Analysis.OfAsync(Analysis.Body(statement)));

    [Theory]
    [InlineData("Thread.Sleep(1)", "Thread.Sleep(1)")]
    [InlineData("int n = Task.FromResult(1).Result", "Task.FromResult(1).Result")]
    [InlineData("Task.Delay(1).Wait()", "Task.Delay(1).Wait()")]
    [InlineData("SendAsync(\"x\").AsTask().GetAwaiter().GetResult()",
        "SendAsync(\"x\").AsTask().GetAwaiter().GetResult()")]
    [InlineData("new SemaphoreSlim(1).Wait()", "new SemaphoreSlim(1).Wait()")]
    [InlineData("CloseAndWait(TimeSpan.FromSeconds(1))", "CloseAndWait(TimeSpan.FromSeconds(1))")]
    public async Task Blocking_in_a_callback_is_reported(string call, string expected)
    {
        Assert.Equal([$"WHIM0004 {expected}"],
            await Analysis.OfAsync($"class Chat : Session {{ protected override void OnConnected() {{ {call}; }} }}"));
        if (call.StartsWith("Close", StringComparison.Ordinal) || call.StartsWith("Send", StringComparison.Ordinal))
            return;
        Assert.Equal([$"WHIM0004 {expected}"],
            await Analysis.OfAsync(Analysis.Body($"web.Get(\"/\", (request, response) => {{ {call}; }})")));
        Assert.Equal([$"WHIM0004 {expected}"], await Analysis.OfAsync(
            Analysis.Body($"web.Get(\"/\", async (request, response, stop) => {{ {call}; await Task.Yield(); }})")));
        Assert.Equal([$"WHIM0004 {expected}"],
            await Analysis.OfAsync(Analysis.Body($"loop.Post(() => {{ {call}; }})")));
    }

    [Theory]
    [InlineData("Thread.Sleep(1)")]
    [InlineData("Task.Delay(1).Wait()")]
    [InlineData("web.Get(\"/\", async (request, response, stop) => await Task.Delay(1))")]
    [InlineData("web.Get(\"/\", (request, response) => { Task.Run(() => Thread.Sleep(1)); })")]
    [InlineData("void Local() => Thread.Sleep(1); Local()")]
    public async Task Blocking_outside_a_callback_is_not_reported(string statement) =>
        Assert.Empty(await Analysis.OfAsync(Analysis.Body(statement)));

    [Fact]
    public async Task Raw_sends_of_a_WebSocket_session_are_reported_and_those_of_other_sessions_are_not()
    {
        string[] found = await Analysis.OfAsync("""
            class Room : WebSocketSession
            {
                protected override void OnConnected() { Send("raw"); this.Send(new byte[1]); SendText("framed"); SendBinary(new byte[1]); }
                async Task Later() { await SendAsync("raw"); await SendTextAsync(new byte[1]); }
            }
            class Raw : Session { protected override void OnConnected() => Send("bytes"); }
            """);
        Assert.Equal(["WHIM0005 Send(\"raw\")", "WHIM0005 this.Send(new byte[1])", "WHIM0005 SendAsync(\"raw\")"],
            found);
    }

    [Fact]
    public void Every_rule_has_a_section_of_the_guide()
    {
        string guide = File.ReadAllText(Path.Combine(Root(), "docs", "guide", "analyzers.md"));
        string[] ids = [.. Analysis.Analyzers.SelectMany(static a => a.SupportedDiagnostics)
            .Select(static d => d.Id).Order()];
        Assert.Equal(["WHIM0001", "WHIM0002", "WHIM0003", "WHIM0004", "WHIM0005", "WHIM0006", "WHIM0007", "WHIM0008",
            "WHIM0009", "WHIM0010", "WHIM0011"], ids);
        Assert.All(ids, id => Assert.Contains($"\n## {id}", guide, StringComparison.Ordinal));
        Assert.All(Analysis.Analyzers.SelectMany(static a => a.SupportedDiagnostics),
            static d => Assert.Equal($"docs/guide/analyzers.md#{d.Id.ToLowerInvariant()}", d.HelpLinkUri));
    }

    private static string Root()
    {
        DirectoryInfo? folder = new(AppContext.BaseDirectory);
        while (folder is not null && !File.Exists(Path.Combine(folder.FullName, "Whimbrel.slnx")))
            folder = folder.Parent;
        return folder?.FullName ?? throw new InvalidOperationException("The repository was not found above the test.");
    }
}
