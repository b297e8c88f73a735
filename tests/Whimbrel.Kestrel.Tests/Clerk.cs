using System.Runtime.CompilerServices;
using System.Threading.Channels;
using Microsoft.AspNetCore.SignalR;

namespace Whimbrel.Kestrel.Tests;

#pragma warning disable CA1822 // a hub's methods are found by SignalR, and only those of an instance

/// <summary>A hub whose clients are cut, dismissed and forgotten. What its streams and ends have brought is told by <see cref="Journal"/>.</summary>
internal sealed class Clerk(Clerk.Journal journal) : Hub
{
    public override Task OnDisconnectedAsync(Exception? exception)
    {
        journal.Ends.Writer.TryWrite(exception);
        return Task.CompletedTask;
    }

    public string Reverse(string text) => string.Concat(text.Reverse());

    public string Echo(string text) => text;

    public string? Token() => Context.GetHttpContext()!.Request.Headers.Authorization;

    public void Leave() => Context.Abort(); // which says that nobody need come back

    public void Vanish() => Context.GetHttpContext()!.Abort();

    public async IAsyncEnumerable<string> Count(int from, int until, [EnumeratorCancellation] CancellationToken stop)
    {
        try
        {
            for (int i = from; i < until; i++)
            {
                stop.ThrowIfCancellationRequested();
                if (i % 100 == 0) await Task.Yield();
                yield return $"number {i}";
            }
        }
        finally
        {
            journal.Counts.Writer.TryWrite(stop.IsCancellationRequested);
        }
    }

    /// <summary>What the hub of one site has seen, in its order.</summary>
    internal sealed class Journal
    {
        /// <summary>Why connections ended; null when their clients said so.</summary>
        internal Channel<Exception?> Ends { get; } = Channel.CreateUnbounded<Exception?>();

        /// <summary>Of each stream that has ended, whether its client had ended it.</summary>
        internal Channel<bool> Counts { get; } = Channel.CreateUnbounded<bool>();
    }
}
