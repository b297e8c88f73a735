using System.Net;

namespace Whimbrel.Testing;

/// <summary>A listener of the memory network; several may share an address.</summary>
internal sealed class MemoryListening(EndPoint endPoint, int backlog, bool isShared)
{
    internal EndPoint EndPoint { get; } = endPoint;

    internal int Backlog { get; } = backlog;

    internal bool IsShared { get; } = isShared;

    internal Queue<MemorySocket> Waiting { get; } = new();
}
