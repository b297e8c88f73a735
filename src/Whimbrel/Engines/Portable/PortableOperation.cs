using System.Net.Sockets;
using System.Runtime.InteropServices;
using Whimbrel.Connections;

namespace Whimbrel.Engines.Portable;

/// <summary>What a <see cref="PortableOperation"/> asks of its socket.</summary>
internal enum OperationKind : byte
{
    Accept,
    Connect,
    Receive,
    Send,

    /// <summary>An empty send that ends when the peer of a deferred connect has answered.</summary>
    Open,

    /// <summary>Not a call of its own but the place of one in the list: datagrams were received, or one was sent.</summary>
    Datagrams,
}

/// <summary>
/// One asynchronous call on a socket. Its completion, on whatever thread, does nothing but enter the loop's
/// <see cref="CompletionQueue"/>; the loop's thread looks at the outcome. At most in one list at a time, so it carries
/// the link itself. Recycled by its loop: between two uses it belongs to nobody.
/// </summary>
internal sealed class PortableOperation : SocketAsyncEventArgs
{
    private readonly CompletionQueue _completions;
    private readonly BlockMemory? _block;

    // The context of whoever starts a call is nobody's business: completions run no user code.
    internal PortableOperation(CompletionQueue completions, OperationKind kind, int bufferBytes = 0)
        : base(true)
    {
        _completions = completions;
        Kind = kind;
        if (kind == OperationKind.Send) _block = new BlockMemory();
        if (bufferBytes == 0) return;
        // Pinned for good: the system writes into it while nobody runs, and an idle connection would otherwise pin the heap.
        Small = GC.AllocateUninitializedArray<byte>(bufferBytes, pinned: true);
        SetBuffer(MemoryMarshal.CreateFromPinnedArray(Small, 0, bufferBytes));
    }

    internal OperationKind Kind { get; }

    /// <summary>Of a receive: its own small buffer, all that an idle connection holds.</summary>
    internal byte[] Small { get; } = [];

    internal Resident Resident { get; set; } = null!;

    internal int Slot { get; set; }

    internal PortableOperation? Next { get; set; }

    /// <summary>Not a completion but a note of the loop: more is waiting in the socket, read it directly.</summary>
    internal bool ReadsOn { get; set; }

    /// <summary>Of an open: the empty send has begun, and this completion is its end.</summary>
    internal bool IsUnderWay { get; set; }

    /// <summary>Points a send at queued bytes; they stay where they are until it has completed.</summary>
    // Safe: a block is returned only by AdvanceSend and after CompleteClose, and neither comes while a send is in flight.
    internal unsafe void SetBlock(byte* start, int length) => SetBuffer(_block!.Over(start, length));

    protected override void OnCompleted(SocketAsyncEventArgs e) => _completions.Push(this);
}
