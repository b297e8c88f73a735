using Whimbrel.Engines;

namespace Whimbrel.Datagrams;

/// <summary>
/// One waiting ReceiveAsync. The loop fills the caller's memory. Returns to its inbox when its result was taken.
/// </summary>
internal sealed class DatagramReceiveOperation : Completion<ReceivedDatagram>
{
    private readonly DatagramInbox _inbox;
    private CancellationToken _token;
    private CancellationTokenRegistration _registration;

    internal DatagramReceiveOperation(Engine engine, DatagramInbox inbox)
        : base(engine)
    {
        _inbox = inbox;
        Place = new LinkedListNode<DatagramReceiveOperation>(this);
    }

    internal Memory<byte> Target { get; set; }

    /// <summary>Node in the list of waiting calls, while it waits. Guarded by the inbox.</summary>
    internal LinkedListNode<DatagramReceiveOperation> Place { get; }

    internal void WatchCancellation(CancellationToken token)
    {
        if (!token.CanBeCanceled) return;
        _token = token;
        _registration = token.UnsafeRegister(static state => ((DatagramReceiveOperation)state!).Cancel(), this);
    }

    private void Cancel()
    {
        if (_inbox.TryCancel(this)) SetException(new OperationCanceledException(_token));
    }

    private protected override void Consumed()
    {
        _registration.Dispose();
        _registration = default;
        _token = default;
        Target = default;
        Reset();
        _inbox.Return(this);
    }
}
