using System.Net;

namespace Whimbrel.Testing;

/// <summary>One name that somebody listens at, perhaps one of several that share it.</summary>
internal sealed class MemoryListening(EndPoint endPoint, int backlog, bool isShared)
{
    internal EndPoint EndPoint { get; } = endPoint;

    internal int Backlog { get; } = backlog;

    internal bool IsShared { get; } = isShared;

    internal Queue<MemorySocket> Waiting { get; } = new();
}
