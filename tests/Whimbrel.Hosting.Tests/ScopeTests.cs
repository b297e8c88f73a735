using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging.Abstractions;

namespace Whimbrel.Hosting.Tests;

/// <summary>The scopes of a server by themselves.</summary>
public sealed class ScopeTests
{
    [Fact]
    public async Task Each_wait_ends_with_the_last_scope_that_is_open_then()
    {
        await using ServiceProvider services = new ServiceCollection().BuildServiceProvider();
        SessionScopes scopes = new("Chat", NullLogger.Instance);
        for (int time = 0; time < 3; time++)
        {
            Assert.True(scopes.WaitAsync(CancellationToken.None).IsCompleted);
            AsyncServiceScope[] open = [services.CreateAsyncScope(), services.CreateAsyncScope()];
            foreach (AsyncServiceScope _ in open) scopes.Enter();
            Task wait = scopes.WaitAsync(CancellationToken.None), another = scopes.WaitAsync(CancellationToken.None);
            scopes.End(open[0]);
            await TestHost.UntilAsync(() => scopes.Open == 1, "the end of the first scope");
            Assert.False(wait.IsCompleted || another.IsCompleted);
            scopes.End(open[1]);
            await Task.WhenAll(wait, another).WaitAsync(TestHost.Patience, TestContext.Current.CancellationToken);
            Assert.Equal(0, scopes.Open);
        }
    }
}
