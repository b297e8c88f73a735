using System.Buffers;
using System.Runtime.CompilerServices;
using Whimbrel.Connections;

namespace Whimbrel;

/// <summary>
/// Runs <c>OnReceivedAsync</c> of a session, one call at a time; reused for each call. Owner: its session.
/// </summary>
internal sealed class AsyncReceive
{
    private const int Idle = 0;
    private const int Runs = 1;
    private const int Outlives = 2; // its session has had the last callback, and a stop waits for it

    private readonly Session _session;
    private readonly Action _completed;
    private ConfiguredValueTaskAwaitable.ConfiguredValueTaskAwaiter _awaiter;
    private byte[]? _copy;
    private int _state;

    internal AsyncReceive(Session session)
    {
        _session = session;
        _completed = Completed;
    }

    /// <summary>
    /// Starts a call, inside the callback. Exceptions thrown before the first await, or by a call that completed at
    /// once, are thrown here.
    /// </summary>
    internal void Start(ReadOnlySpan<byte> data)
    {
        byte[] copy = ArrayPool<byte>.Shared.Rent(data.Length);
        data.CopyTo(copy);
        bool isFollowed = false;
        try
        {
            ValueTask running = _session.CallReceivedAsync(copy.AsMemory(0, data.Length));
            if (running.IsCompleted)
            {
                running.GetAwaiter().GetResult();
                return;
            }

            isFollowed = true;
            Follow(running, copy);
        }
        finally
        {
            if (!isFollowed) GiveBack(copy);
        }
    }

    private void Follow(ValueTask running, byte[] copy)
    {
        _session.HoldFor(ReceiveGate.Callback);
        _copy = copy;
        Volatile.Write(ref _state, Runs);
        // Last, because it may complete on another thread before this method returns.
        _awaiter = running.ConfigureAwait(false).GetAwaiter();
        _awaiter.UnsafeOnCompleted(_completed);
    }

    /// <summary>Called in the session's last callback, while the call may still run. On the session's thread.</summary>
    internal void SessionEnds(Connections.ConnectionHost host)
    {
        if (Volatile.Read(ref _state) != Runs) return;
        host.HandlerBegan(_session);
        if (Interlocked.CompareExchange(ref _state, Outlives, Runs) != Runs) host.HandlerEnded(_session);
    }

    /// <summary>Called when the task has completed. Any thread.</summary>
    private void Completed()
    {
        Exception? thrown = null;
        try
        {
            _awaiter.GetResult();
        }
        catch (Exception e)
        {
            thrown = e;
        }

        _awaiter = default;
        GiveBack(_copy!);
        _copy = null;
        bool outlived = Interlocked.Exchange(ref _state, Idle) == Outlives;
        _session.ReceivedAsyncEnded(thrown, outlived);
    }

    private void GiveBack(byte[] copy)
    {
        _session.Loop.PoisonLent(copy);
        ArrayPool<byte>.Shared.Return(copy);
    }
}
