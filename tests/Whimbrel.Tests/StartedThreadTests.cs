namespace Whimbrel.Tests;

public sealed class StartedThreadTests
{
    // A loop outlives the context that started it: a captured activity would become that of all requests.
    [Fact]
    public async Task What_flows_with_whoever_starts_an_engine_does_not_stay_on_its_loops()
    {
        AsyncLocal<string?> flows = new() { Value = "of the one who starts" };
        await using Engine engine = new(new EngineOptions { Loops = 1 });
        await engine.StartAsync();
        flows.Value = null;
        Assert.Null(await engine.GetLoop(0).PostAsync(() => flows.Value));
    }
}
