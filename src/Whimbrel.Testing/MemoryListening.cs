using System.Net;

namespace Whimbrel.Testing;

/// <summary>One name that somebody listens at.</summary>
internal sealed class MemoryListening(EndPoint endPoint, int backlog)
{
    internal EndPoint EndPoint { get; } = endPoint;

    internal int Backlog { get; } = backlog;

    internal Queue<MemorySocket> Waiting { get; } = new();
}
