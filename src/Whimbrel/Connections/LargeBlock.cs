using System.Runtime.InteropServices;

namespace Whimbrel.Connections;

/// <summary>
/// Receive buffer of a loop for connections with messages larger than its normal receive block. A message of 256 KiB
/// arrives complete, with its protocol header, and is read in place. One for each loop, created on demand, and freed
/// when it was not used for a while. Owned by the loop; its thread only.
/// </summary>
// Safe: lent from Take until the callback has returned; timers, which free it, fire outside of callbacks.
internal sealed unsafe class LargeBlock(Loop loop) : IReceiveBuffer
{
    internal const int Bytes = (256 * 1024) + PageBytes;
    private const int PageBytes = 4096;

    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(1);

    private LoopTimer? _timer;
    private byte* _memory;
    private bool _wasUsed;

    /// <summary>True if the memory is allocated.</summary>
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
        loop.Counters.EngineBytes += Bytes;
        _timer = loop.StartTimer(s_patience, static block => ((LargeBlock)block!).GiveBack(), this, s_patience);
        return _memory;
    }

    /// <summary>Frees the memory between one and two seconds after its last use.</summary>
    private void GiveBack()
    {
        if (!_wasUsed) Free();
        _wasUsed = false;
    }

    internal void Free()
    {
        _timer?.Cancel();
        _timer = null;
        if (_memory is null) return;
        loop.Counters.EngineBytes -= Bytes;
        NativeMemory.AlignedFree(_memory);
        _memory = null;
    }
}
