using Microsoft.CodeAnalysis;

namespace Whimbrel.Analyzers.Tests;

// WHIM0007, WHIM0008 and WHIM0009.
public sealed class OverrideTests
{
    [Fact]
    public async Task A_method_that_only_has_the_name_of_a_callback_is_reported()
    {
        Diagnostic found = Assert.Single(await Analysis.DiagnosticsOfAsync(
            "class S : Session { public void OnReceived(byte[] buffer, long offset, long size) { } }"));
        Assert.Equal("WHIM0007", found.Id);
        Assert.Equal(
            "S.OnReceived has the name of a callback of Session, and other parameters: Whimbrel never calls it. Write: "
            + "override void OnReceived(ReadOnlySpan<byte> data).",
            found.GetMessage(System.Globalization.CultureInfo.InvariantCulture));
        Assert.Equal(["WHIM0007 OnConnected"], await Analysis.OfAsync(
            "class B : Server { public B() : base(\"tcp://*:1\", () => null!) { } void OnConnected(int n) { } }"));
        Assert.Equal(["WHIM0007 OnReceived"],
            await Analysis.OfAsync("class H : DatagramHandler { protected virtual void OnReceived(string text) { } }"));
    }

    [Theory]
    [InlineData("class S : Session { protected override void OnReceived(ReadOnlySpan<byte> data) => OnReceived(1); "
        + "void OnReceived(int n) { } }")]
    [InlineData("class S : Session { void OnLine(string line) { } }")]
    [InlineData("class S { void OnReceived(int n) { } }")]
    [InlineData("class S : Session { static void OnConnected(int n) { } }")]
    public async Task Overrides_their_helpers_and_other_classes_are_not_reported(string code) =>
        Assert.Empty(await Analysis.OfAsync(code));

    [Fact]
    public async Task An_override_that_another_one_hides_is_reported()
    {
        const string unread = "protected override int OnData(ReadOnlySpan<byte> unread) => unread.Length;";
        const string received = "protected override void OnReceived(ReadOnlySpan<byte> data) { }";
        const string async = "protected override ValueTask OnReceivedAsync(ReadOnlyMemory<byte> data) => default;";
        Assert.Equal(["WHIM0008 OnReceived"], await Analysis.OfAsync($"class S : Session {{ {unread} {received} }}"));
        Assert.Equal(["WHIM0008 OnReceivedAsync"],
            await Analysis.OfAsync($"class S : Session {{ {received} {async} }}"));
        Assert.Equal(["WHIM0008 OnReceivedAsync"], await Analysis.OfAsync($"class S : Session {{ {unread} {async} }}"));
        Assert.Empty(await Analysis.OfAsync($"class S : Session {{ {received} protected override int "
            + $"OnData(ReadOnlySpan<byte> unread) {{ OnReceived(unread); return unread.Length; }} }}"));
        Assert.Empty(await Analysis.OfAsync($"class S : Session {{ {received} protected override int "
            + $"OnData(ReadOnlySpan<byte> unread) => base.OnData(unread); }}"));
        Assert.Empty(await Analysis.OfAsync($"class S : Session {{ {async} }}"));
    }

    [Fact]
    public async Task A_name_in_nameof_or_another_base_call_is_no_call_of_a_hidden_override()
    {
        const string received = "protected override void OnReceived(ReadOnlySpan<byte> data) { }";
        Assert.Equal(["WHIM0008 OnReceived"], await Analysis.OfAsync($"class S : Session {{ {received} protected "
            + "override int OnData(ReadOnlySpan<byte> unread) { Console.WriteLine(nameof(OnReceived)); "
            + "base.OnConnected(); "
            + "return unread.Length; } }"));
        Assert.Empty(await Analysis.OfAsync($"class S : Session {{ {received} protected override int "
            + "OnData(ReadOnlySpan<byte> unread) { Give(OnReceived, unread); return 1; } "
            + "delegate void Taker(ReadOnlySpan<byte> data); void Give(Taker t, ReadOnlySpan<byte> d) => t(d); }"));
    }

    [Theory]
    [InlineData("server.StartAsync()", "server.StartAsync()")]
    [InlineData("_ = server.StartAsync().AsTask()", "server.StartAsync()")]
    [InlineData("_ = client.ConnectAsync()", "client.ConnectAsync()")]
    public async Task A_start_that_is_not_awaited_is_reported(string statement, string expected) =>
        Assert.Equal([$"WHIM0009 {expected}"],
            await Analysis.OfAsync(Analysis.Body(statement, "Server server, Client client")));

    [Theory]
    [InlineData("await server.StartAsync()")]
    [InlineData("var starting = server.StartAsync()")]
    [InlineData("_ = await client.ConnectAsync()")]
    [InlineData("_ = server.StopAsync()")]
    public async Task A_start_that_is_awaited_or_kept_is_not(string statement) =>
        Assert.Empty(await Analysis.OfAsync(Analysis.Body(statement, "Server server, Client client")));
}
