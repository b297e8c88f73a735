using System.Buffers;
using Whimbrel.Buffers;
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
    private ReadOnlyMemory<byte> _piece; // of the message, what is left of the piece in turn
    private ReadOnlyMemory<byte> _body; // then this
    private ReadOnlySequence<byte> _tail; // then this, from _next on
    private SequencePosition _next;
    private CancellationToken _token;
    private CancellationTokenRegistration _registration;
    private bool _mayBeTakenBack;
    private int _isTaken; // of one that may be taken back

    private SendOperation(Loop loop)
        : base(loop.Engine) => _loop = loop;

    internal SendOperation? Next { get; set; }

    /// <summary>Bytes that were not accepted yet.</summary>
    internal long Left { get; private set; }

    /// <summary>Comes behind the bytes, when it has a length. On loan until the operation ends.</summary>
    internal FileRange File { get; private set; }

    internal bool HasStarted { get; private set; }

    /// <summary>Of the marks that stand behind it, side by side in the list of its connection: the first.</summary>
    internal SentMark? FirstMark { get; set; }

    /// <summary>Cancelled while it was still in the mailbox: the control lane is quicker than the data lane.</summary>
    internal bool IsCancelRequested { get; set; }

    internal static SendOperation Take(Loop loop)
    {
        if (loop.IsCurrent && loop.FreeOperations.TryPop(out SendOperation? operation)) return operation;
        return new SendOperation(loop);
    }

    internal void Begin(
        Connection connection,
        uint generation,
        ReadOnlyMemory<byte> head,
        ReadOnlyMemory<byte> body,
        in ReadOnlySequence<byte> tail,
        in FileRange file,
        long length,
        bool mayBeTakenBack)
    {
        _mayBeTakenBack = mayBeTakenBack;
        _isTaken = 0;
        _connection = connection;
        _generation = generation;
        _piece = head;
        _body = body;
        _tail = tail;
        _next = tail.Start;
        File = file;
        file.File?.LendOn();
        Left = length;
        HasStarted = false;
        IsCancelRequested = false;
    }

    /// <summary>The loop takes its first piece, or its caller, who blocks and whose time is over, takes it back: whoever is first, once.</summary>
    internal bool TryTake() => !_mayBeTakenBack || Interlocked.Exchange(ref _isTaken, 1) == 0;

    /// <summary>The next bytes, at least one, of the piece they lie in. The memory is the user's, and may throw.</summary>
    internal ReadOnlySpan<byte> Part(int most)
    {
        while (_piece.IsEmpty) MoveToNextPiece();
        return _piece.Span[..Math.Min(most, _piece.Length)];
    }

    private void MoveToNextPiece()
    {
        if (!_body.IsEmpty)
        {
            _piece = _body;
            _body = default;
        }
        else if (!_tail.TryGet(ref _next, out _piece))
        {
            Pieces.Changed();
        }
    }

    internal void Advance(int count)
    {
        _piece = _piece[count..];
        Left -= count;
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
        Ended();
        SetResult(result);
    }

    /// <summary>Its memory threw: whoever awaits gets that.</summary>
    internal void EndFailed(Exception exception)
    {
        Ended();
        SetException(exception);
    }

    internal void EndCancelled()
    {
        Ended();
        SetException(new OperationCanceledException(_token));
    }

    private void Ended()
    {
        File.File?.EndLoan();
        File = default;
        FirstMark = null;
        _connection!.OperationEnded();
    }

    private protected override void Consumed()
    {
        _registration.Dispose();
        _registration = default;
        _piece = default;
        _body = default;
        _tail = default;
        _next = default;
        _connection = null;
        Reset();
        if (_loop.IsCurrent && _loop.FreeOperations.Count < 256) _loop.FreeOperations.Push(this);
    }
}
