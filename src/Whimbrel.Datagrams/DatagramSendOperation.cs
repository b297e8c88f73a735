using Whimbrel.Engines;

namespace Whimbrel.Datagrams;

/// <summary>
/// One SendAsync of a datagram that waits for space. The memory belongs to the caller until it completes.
/// </summary>
internal sealed class DatagramSendOperation : Completion<SendResult>
{
    internal readonly DatagramPeer Peer;
    private readonly LoopSocket _resident;
    private CancellationToken _token;
    private CancellationTokenRegistration _registration;

    internal DatagramSendOperation(LoopSocket resident, ReadOnlyMemory<byte> data, in DatagramPeer peer)
        : base(resident.Loop.Engine)
    {
        _resident = resident;
        Data = data;
        Peer = peer;
    }

    internal ReadOnlyMemory<byte> Data { get; }

    internal DatagramSendOperation? Next { get; set; }

    /// <summary>True if it is in the list of its socket.</summary>
    internal bool IsListed { get; set; }

    /// <summary>
    /// True if it was cancelled while it was in the mailbox, because the control lane is faster than the data lane.
    /// </summary>
    internal bool IsCancelRequested { get; private set; }

    internal void WatchCancellation(CancellationToken token)
    {
        if (!token.CanBeCanceled) return;
        _token = token;
        _registration = token.UnsafeRegister(static state => ((DatagramSendOperation)state!).CancelRequested(), this);
    }

    /// <summary>Asks the loop to cancel the wait. Any thread.</summary>
    internal void CancelRequested() =>
        _resident.Loop.PostControl(static (_, operation, _, _) => ((DatagramSendOperation)operation!).Cancel(), this);

    private void Cancel()
    {
        if (IsCompleted) return;
        if (IsListed) _resident.CancelOperation(this);
        else IsCancelRequested = true;
    }

    internal void EndCancelled() => SetException(new OperationCanceledException(_token));

    private protected override void Consumed()
    {
        _registration.Dispose();
        _registration = default;
    }
}
