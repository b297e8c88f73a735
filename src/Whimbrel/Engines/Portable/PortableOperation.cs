using System.Net.Sockets;
using System.Runtime.InteropServices;
using Whimbrel.Connections;

namespace Whimbrel.Engines.Portable;

/// <summary>Kind of call of a <see cref="PortableOperation"/>.</summary>
internal enum OperationKind : byte
{
    Accept,
    Connect,
    Receive,
    Send,

    /// <summary>An empty send that ends when the peer of a deferred connect has answered.</summary>
    Open,

    /// <summary>Entry of the ready list for a datagram socket: datagrams were received, or one was sent.</summary>
    Datagrams,
}

/// <summary>
/// One asynchronous call on a socket. Its completion, on any thread, is only added to the loop's
/// <see cref="CompletionQueue"/>; the loop's thread reads the result. It is in at most one list at a time, so it
/// contains the link. The loop reuses it; between two uses it has no owner.
/// </summary>
internal sealed class PortableOperation : SocketAsyncEventArgs
{
    private readonly CompletionQueue _completions;
    private readonly BlockMemory? _block;

    // Does not capture the execution context of the thread that starts a call, because completions run no user code.
    internal PortableOperation(CompletionQueue completions, OperationKind kind, int bufferBytes = 0)
        : base(true)
    {
        _completions = completions;
        Kind = kind;
        if (kind == OperationKind.Send) _block = new BlockMemory();
        if (bufferBytes == 0) return;
        // Pinned permanently: the system writes into it between turns, and an idle connection would otherwise pin the
        // heap.
        Small = GC.AllocateUninitializedArray<byte>(bufferBytes, pinned: true);
        SetBuffer(MemoryMarshal.CreateFromPinnedArray(Small, 0, bufferBytes));
    }

    internal OperationKind Kind { get; }

    /// <summary>Of a receive: its own small buffer, the only one of an idle connection.</summary>
    internal byte[] Small { get; } = [];

    internal Resident Resident { get; set; } = null!;

    internal int Slot { get; set; }

    internal PortableOperation? Next { get; set; }

    /// <summary>
    /// True for an entry that the loop has added itself: the socket has more data, which is read directly.
    /// </summary>
    internal bool ReadsOn { get; set; }

    /// <summary>Of an open: the empty send has started, and this completion is its end.</summary>
    internal bool IsUnderWay { get; set; }

    /// <summary>Sets queued bytes as the buffer of a send; they stay in place until it has completed.</summary>
    // Safe: a block is returned only by AdvanceSend and after CompleteClose, and neither happens while a send is in
    // flight.
    internal unsafe void SetBlock(byte* start, int length) => SetBuffer(_block!.Over(start, length));

    protected override void OnCompleted(SocketAsyncEventArgs e) => _completions.Push(this);
}
