using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// One <c>SendAsync</c> that waits for room. The memory stays the caller's until it completes. Taken from its loop's
/// pool and put back by the awaiter when that runs on the loop.
/// </summary>
internal sealed class SendOperation : Completion<SendResult>
{
    private readonly Loop _loop;
    private Connection? _connection;
    private uint _generation;
    private CancellationToken _token;
    private CancellationTokenRegistration _registration;

    private SendOperation(Loop loop)
        : base(loop.Engine) => _loop = loop;

    internal SendOperation? Next { get; set; }

    /// <summary>What was not accepted yet.</summary>
    internal ReadOnlyMemory<byte> Rest { get; private set; }

    internal bool HasStarted { get; private set; }

    /// <summary>Cancelled while it was still in the mailbox: the control lane is quicker than the data lane.</summary>
    internal bool IsCancelRequested { get; set; }

    internal static SendOperation Take(Loop loop)
    {
        if (loop.IsCurrent && loop.FreeOperations.TryPop(out SendOperation? operation)) return operation;
        return new SendOperation(loop);
    }

    internal void Begin(Connection connection, uint generation, ReadOnlyMemory<byte> data)
    {
        _connection = connection;
        _generation = generation;
        Rest = data;
        HasStarted = false;
        IsCancelRequested = false;
    }

    internal void Advance(int count)
    {
        Rest = Rest[count..];
        HasStarted = true;
    }

    internal void CancelWith(CancellationToken token)
    {
        _token = token;
        _registration = token.UnsafeRegister(static state => ((SendOperation)state!).CancelRequested(), this);
    }

    /// <summary>Asks the loop to give it up (contract 6). Any thread.</summary>
    internal void CancelRequested() =>
        _loop.PostControl(
            static (_, operation, _, version) =>
            {
                SendOperation o = (SendOperation)operation!;
                // The version tells whether this object still serves the call that was cancelled. An awaiter that is not on the loop may take
                // the result at this moment: the connection is read once, and an operation that has ended is in no list of it.
                if (o.Version != (short)version || o.IsCompleted || o._connection is not { } connection) return;
                if (connection.Generation == o._generation) connection.CancelOperation(o);
            },
            this,
            null,
            Version);

    internal void End(SendResult result)
    {
        _connection!.OperationEnded();
        SetResult(result);
    }

    /// <summary>Its memory threw: whoever awaits gets that.</summary>
    internal void EndFailed(Exception exception)
    {
        _connection!.OperationEnded();
        SetException(exception);
    }

    internal void EndCancelled()
    {
        _connection!.OperationEnded();
        SetException(new OperationCanceledException(_token));
    }

    private protected override void Consumed()
    {
        _registration.Dispose();
        _registration = default;
        Rest = default;
        _connection = null;
        Reset();
        if (_loop.IsCurrent && _loop.FreeOperations.Count < 256) _loop.FreeOperations.Push(this);
    }
}
