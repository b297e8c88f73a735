namespace Whimbrel.Analyzers.Tests;

// WHIM0001, WHIM0002 and WHIM0006.
public sealed class AsyncVoidTests
{
    [Theory]
    [InlineData("Server s = new(new ServerOptions { OnDiagnosticEvent = async n => await Task.Yield() }, static () "
        + "=> null!)", "WHIM0001 async n => await Task.Yield()")]
    [InlineData("var o = new EngineOptions { OnIdle = async delegate { await Task.Yield(); } }",
        "WHIM0001 async delegate { await Task.Yield(); }")]
    [InlineData("var o = new EngineOptions { OnDiagnosticEvent = web is null ? null : async n => await Task.Yield() }",
        "WHIM0001 async n => await Task.Yield()")]
    [InlineData("session.Post(Fire)", "WHIM0001 Fire")]
    [InlineData("loop.Post(new Action(Fire))", "WHIM0001 new Action(Fire)")]
    [InlineData("loop.StartTimer(TimeSpan.Zero, new Action<object?>(async s => await Task.Yield()))",
        "WHIM0001 new Action<object?>(async s => await Task.Yield())")]
    public async Task Async_void_given_to_a_delegate_of_the_library_is_reported(string statement, string expected) =>
        Assert.Equal([expected], await Analysis.OfAsync(Analysis.Body(statement)));

    [Theory]
    [InlineData("session.Post(async () => await Task.Yield())")]
    [InlineData("session.Post(async s => await Task.Yield(), null)")]
    [InlineData("session.Post(FireAsync)")]
    [InlineData("loop.Post(async () => await Task.Yield())")]
    [InlineData("loop.Post(async s => await Task.Yield(), null)")]
    [InlineData("loop.Dispatch(async () => await Task.Yield())")]
    [InlineData("await session.PostAsync(async s => await Task.Yield(), null)")]
    [InlineData("await loop.PostAsync(async s => await Task.Yield(), null)")]
    [InlineData("await loop.PostAsync(async () => await Task.Yield())")]
    [InlineData("loop.StartTimer(TimeSpan.Zero, async s => await Task.Yield())")]
    [InlineData("loop.StartTimer(DateTimeOffset.Now, async s => await Task.Yield())")]
    [InlineData("loop.StartTimer(TimeSpan.Zero, async (s, isCancelled) => await Task.Yield())")]
    [InlineData("loop.StartTimer(DateTimeOffset.Now, async (s, isCancelled) => await Task.Yield())")]
    [InlineData("session.Post(() => session.Close()); loop.Post(() => { }); loop.StartTimer(TimeSpan.Zero, s => { })")]
    [InlineData("var o = new EngineOptions { OnDiagnosticEvent = n => Console.WriteLine(n) }")]
    [InlineData("web.Get(\"/\", async (request, response, stop) => await Task.Yield())")]
    [InlineData("new Timer(async s => await Task.Yield())")]
    [InlineData("Action mine = async () => await Task.Yield()")]
    public async Task A_lambda_that_finds_an_overload_with_a_task_and_code_of_others_are_not(string statement) =>
        Assert.Empty(await Analysis.OfAsync(Analysis.Body(statement)));

    [Fact]
    public async Task Async_void_overrides_are_reported_and_others_are_not()
    {
        string[] found = await Analysis.OfAsync("""
            class Chat : Session
            {
                protected override async void OnConnected() => await Task.Yield();
                protected override async ValueTask OnReceivedAsync(ReadOnlyMemory<byte> data) => await Task.Yield();
                protected override void OnDrained() => Post(async () => await Task.Yield());
                async void Mine() => await Task.Yield();
            }
            class Deeper : Chat { protected override async void OnConnected() => await Task.Yield(); }
            class Plan(Loop loop) : LoopTimer(loop) { protected override async void OnFired(bool isCancelled) => await Task.Yield(); }
            abstract class Other { protected abstract void OnConnected(); }
            class Another : Other { protected override async void OnConnected() => await Task.Yield(); }
            """);
        Assert.Equal(["WHIM0002 OnConnected", "WHIM0002 OnConnected", "WHIM0002 OnFired"], found);
    }

    [Theory]
    [InlineData("session.Post(() => Fire())", "WHIM0006 Fire()")]
    [InlineData("web.Get(\"/\", (request, response) => Fire())", "WHIM0006 Fire()")]
    [InlineData("web.Get(\"/\", (request, response) => { if (request.Path.IsEmpty) Fire(); })", "WHIM0006 Fire()")]
    [InlineData("async void Mine() => await Task.Yield(); loop.Post(() => Mine())", "WHIM0006 Mine()")]
    public async Task A_call_of_an_async_void_method_in_a_lambda_is_reported(string statement, string expected) =>
        Assert.Equal([expected], await Analysis.OfAsync(Analysis.Body(statement)));

    [Theory]
    [InlineData("Fire()")]
    [InlineData("new Thread(() => Fire())")]
    [InlineData("session.Post(() => Task.Run(() => Fire()))")]
    [InlineData("session.Post(() => { _ = FireAsync(); })")]
    public async Task A_call_of_an_async_void_method_elsewhere_is_not_reported(string statement) =>
        Assert.Empty(await Analysis.OfAsync(Analysis.Body(statement)));

    [Fact]
    public async Task A_call_of_an_async_void_method_in_a_class_of_callbacks_is_reported()
    {
        string[] found = await Analysis.OfAsync("""
            class Chat : Session
            {
                protected override void OnConnected() => Mine();
                void Helper() => Mine();
                async void Mine() => await Task.Yield();
            }
            class Other { void Helper() => Mine(); async void Mine() => await Task.Yield(); }
            """);
        Assert.Equal(["WHIM0006 Mine()", "WHIM0006 Mine()"], found);
    }

    [Fact]
    public async Task The_message_names_the_member_and_the_cure()
    {
        string Message(string id, Microsoft.CodeAnalysis.Diagnostic[] of) =>
            Assert.Single(of, d => d.Id == id).GetMessage(System.Globalization.CultureInfo.InvariantCulture);
        string message = Message("WHIM0001", await Analysis.DiagnosticsOfAsync(Analysis.Body("session.Post(Fire)")));
        Assert.Contains("Session.Post", message, StringComparison.Ordinal);
        Assert.Contains("Let the method return a Task", message, StringComparison.Ordinal);
        message = Message("WHIM0001", await Analysis.DiagnosticsOfAsync(
            Analysis.Body("var o = new EngineOptions { OnDiagnosticEvent = async n => await Task.Yield() }")));
        Assert.Contains("EngineOptions.OnDiagnosticEvent", message, StringComparison.Ordinal);
        Assert.Contains("loop.Post(async () => ...)", message, StringComparison.Ordinal);
    }
}
