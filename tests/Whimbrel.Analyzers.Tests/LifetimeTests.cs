using Microsoft.CodeAnalysis;

namespace Whimbrel.Analyzers.Tests;

// WHIM0010 and WHIM0011: a session before its connection, and an exchange after its handler.
public sealed class LifetimeTests
{
    [Theory]
    [InlineData("class S : Session { public S() { Send(\"hello\"); } }", "Send(\"hello\")")]
    [InlineData("class S : Session { public S() => this.Send(new byte[1]); }", "this.Send(new byte[1])")]
    [InlineData("class S : Session { public S() { _ = SendAsync(\"x\"); } }", "SendAsync(\"x\")")]
    [InlineData("class W : WebSocketSession { public W() { if (GetHashCode() > 0) SendText(\"x\"); } }",
        "SendText(\"x\")")]
    public async Task A_send_of_a_session_in_its_constructor_is_reported(string code, string expected) =>
        Assert.Equal([$"WHIM0010 {expected}"], await Analysis.OfAsync(code));

    [Theory]
    [InlineData("class S : Session { protected override void OnConnected() => Send(\"x\"); }")]
    [InlineData("class S : Session { readonly Action _later; public S() => _later = () => Send(\"x\"); }")]
    [InlineData("class S : Session { public S(Session other) => other.Send(\"x\"); }")]
    [InlineData("class S : Session { public S() => Send(1); static void Send(int n) { } }")]
    public async Task Other_sends_around_a_constructor_are_not(string code) =>
        Assert.Empty(await Analysis.OfAsync(code));

    [Theory]
    [InlineData("web.Get(\"/\", (request, response) => { Task.Run(() => response.Text(\"x\")); })", "response")]
    [InlineData("web.Get(\"/\", (request, response) => { _ = Task.Run(async () => { await Task.Yield(); "
        + "Console.WriteLine(request.Path.ToString()); }); })", "request")]
    [InlineData("web.Get(\"/\", (request, response) => { ThreadPool.QueueUserWorkItem(_ => response.Text(\"x\")); })",
        "response")]
    [InlineData("web.Get(\"/\", async (request, response) => { await Task.Yield(); HttpResponse late = response; "
        + "new Thread(() => late.Text(\"x\")).Start(); })", "late")]
    public async Task A_response_in_work_that_nothing_awaits_is_reported(string statement, string expected) =>
        Assert.Equal([$"WHIM0011 {expected}"], await Analysis.OfAsync(Analysis.Body(statement)));

    [Theory]
    [InlineData("web.Get(\"/\", async (request, response) => await Task.Run(() => response.Text(\"x\")))")]
    [InlineData("web.Get(\"/\", async (request, response) => { var work = Task.Run(() => response.Text(\"x\")); "
        + "await work; })")]
    [InlineData("web.Get(\"/\", (request, response) => { string path = request.Path.ToString(); "
        + "Task.Run(() => Console.WriteLine(path)); response.Text(\"x\"); })")]
    public async Task A_response_in_awaited_work_is_not(string statement) =>
        Assert.Empty(await Analysis.OfAsync(Analysis.Body(statement)));

    [Fact]
    public async Task The_messages_say_what_to_write()
    {
        var culture = System.Globalization.CultureInfo.InvariantCulture;
        Diagnostic early = Assert.Single(
            await Analysis.DiagnosticsOfAsync("class S : Session { public S() { Send(\"hello\"); } }"));
        Assert.Contains("Override OnConnected", early.GetMessage(culture), StringComparison.Ordinal);
        Diagnostic late = Assert.Single(await Analysis.DiagnosticsOfAsync(
            Analysis.Body("web.Get(\"/\", (request, response) => { Task.Run(() => response.Text(\"x\")); })")));
        Assert.Contains("work that Task.Run starts", late.GetMessage(culture), StringComparison.Ordinal);
    }
}
