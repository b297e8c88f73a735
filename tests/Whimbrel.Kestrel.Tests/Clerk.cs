using System.Runtime.CompilerServices;
using System.Threading.Channels;
using Microsoft.AspNetCore.SignalR;

namespace Whimbrel.Kestrel.Tests;

#pragma warning disable CA1822 // SignalR finds only instance methods of a hub

/// <summary>A hub that disconnects, aborts or loses clients. <see cref="Journal"/> records the ends of streams
/// and connections.</summary>
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

    public void Leave() => Context.Abort(); // which forbids a reconnect

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

    /// <summary>Events of the hub of one site, in order.</summary>
    internal sealed class Journal
    {
        /// <summary>Exceptions that ended connections; null if the client closed.</summary>
        internal Channel<Exception?> Ends { get; } = Channel.CreateUnbounded<Exception?>();

        /// <summary>For each ended stream, whether its client had cancelled it.</summary>
        internal Channel<bool> Counts { get; } = Channel.CreateUnbounded<bool>();
    }
}
