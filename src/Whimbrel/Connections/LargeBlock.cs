using System.Runtime.InteropServices;

namespace Whimbrel.Connections;

/// <summary>
/// What a loop receives into for connections whose messages are larger than its receive block: a message of 256 KiB comes whole, with what its
/// protocol puts in front of it, and is looked at where it lies. One for each loop, made when it is needed, and given back when nobody has needed it
/// for a while. Owner: the loop; its thread only.
/// </summary>
// Safe: lent from Take until the callback has returned; timers, which give it back, fire outside of callbacks.
internal sealed unsafe class LargeBlock(Loop loop) : IReceiveBuffer
{
    internal const int Bytes = (256 * 1024) + PageBytes;
    private const int PageBytes = 4096;

    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(1);

    private LoopTimer? _timer;
    private byte* _memory;
    private bool _wasUsed;

    /// <summary>There is memory now.</summary>
    internal bool IsThere => _memory is not null;

    internal byte* Take()
    {
        _wasUsed = true;
        return _memory is null ? Make() : _memory;
    }

    Span<byte> IReceiveBuffer.Get() => new(Take(), Bytes);

    void IReceiveBuffer.Done(Connection connection, Span<byte> received)
    {
        if (received.IsEmpty) return;
        connection.CompleteReceive(received);
        Loop.PoisonReceived(received);
    }

    private byte* Make()
    {
        _memory = (byte*)NativeMemory.AlignedAlloc(Bytes, PageBytes);
        _timer = loop.StartTimer(s_patience, static block => ((LargeBlock)block!).GiveBack(), this, s_patience);
        return _memory;
    }

    /// <summary>Between one and two seconds after its last use.</summary>
    private void GiveBack()
    {
        if (!_wasUsed) Free();
        _wasUsed = false;
    }

    internal void Free()
    {
        _timer?.Cancel();
        _timer = null;
        NativeMemory.AlignedFree(_memory);
        _memory = null;
    }
}
