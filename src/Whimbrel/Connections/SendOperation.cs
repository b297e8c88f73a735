using System.Buffers;
using Whimbrel.Buffers;
using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// One <c>SendAsync</c> that waits for space. The memory belongs to the caller until it completes. Taken from its
/// loop's pool, and returned by an awaiter on the loop.
/// </summary>
internal sealed class SendOperation : Completion<SendResult>, ILinked<SendOperation>
{
    private readonly Loop _loop;
    private Connection? _connection;
    private uint _generation;
    private ReadOnlyMemory<byte> _piece; // rest of the piece that is sent now
    private ReadOnlyMemory<byte> _body; // then this
    private ReadOnlySequence<byte> _tail; // then this, from _next on
    private SequencePosition _next;
    private CancellationToken _token;
    private CancellationTokenRegistration _registration;
    private bool _mayBeTakenBack;
    private int _isTaken; // of an operation that may be cancelled by its caller

    private SendOperation(Loop loop)
        : base(loop.Engine) => _loop = loop;

    public SendOperation? Next { get; set; }

    /// <summary>Number of bytes that were not accepted yet.</summary>
    internal long Left { get; private set; }

    /// <summary>File part that follows the bytes, if it has a length. Referenced until the operation ends.</summary>
    internal FileRange File { get; private set; }

    internal bool HasStarted { get; private set; }

    /// <summary>First mark that follows this operation; the others follow it in the list of the connection.</summary>
    internal SentMark? FirstMark { get; set; }

    /// <summary>
    /// True if it was cancelled while it was still in the mailbox, where control items overtake data items.
    /// </summary>
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

    /// <summary>
    /// Decides between the loop, which takes the first piece, and a blocked caller with a passed timeout, which
    /// cancels. Returns true to the first of them, once.
    /// </summary>
    internal bool TryTake() => !_mayBeTakenBack || Interlocked.Exchange(ref _isTaken, 1) == 0;

    /// <summary>
    /// Returns the next bytes, at least one, of the current piece. The memory is the user's, and may throw.
    /// </summary>
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

    /// <summary>Posts the cancellation to the loop (contract 6). Any thread.</summary>
    internal void CancelRequested() =>
        _loop.PostControl(
            static (_, operation, _, version) =>
            {
                SendOperation o = (SendOperation)operation!;
                // The version shows whether this object still serves the cancelled call. An awaiter outside the loop
                // may take the result at this moment. The connection is therefore read once, and an operation that has
                // ended is in none of its lists.
                if (o.Version != (short)version || o.IsCompleted || o._connection is not { } connection) return;
                if (connection.Generation == o._generation) connection.Outbound.CancelOperation(o);
            },
            this,
            null,
            Version);

    internal void End(SendResult result)
    {
        Ended();
        SetResult(result);
    }

    /// <summary>Fails the operation because its memory threw; the awaiter gets the exception.</summary>
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
        _connection!.Outbound.OperationEnded();
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
