namespace Whimbrel.Tests;

public sealed class StartedThreadTests
{
    // A loop outlives the context that started it: a captured activity would become that of all requests.
    [Fact]
    public async Task The_context_that_starts_an_engine_does_not_flow_to_its_loops()
    {
        AsyncLocal<string?> flows = new() { Value = "of the one who starts" };
        await using Engine engine = new(new EngineOptions { Loops = 1 });
        await engine.StartAsync();
        flows.Value = null;
        Assert.Null(await engine.GetLoop(0).PostAsync(() => flows.Value));
    }
}
