using System.Buffers;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel;

/// <summary>
/// One call: the task of its caller, and the memory of its answer. It belongs to the client until the call ends, then
/// to the awaiting code, and to the owner of the answer while that is on loan. It then returns to the client for reuse.
/// Members that are not of <see cref="Completion{T}"/> or of the loan are guarded by the client's lock.
/// </summary>
internal sealed class Call(CallClient owner) : Completion<CallAnswer>(owner.Engine)
{
    /// <summary>
    /// Larger answers use the shared array pool, so that a burst of large answers does not keep memory.
    /// </summary>
    private const int KeptBytes = 4 * 1024;

    private volatile CallState _state; // read outside of the lock by cancellation
    private byte[] _answer = [];
    private int _length;
    private int _loan; // incremented at the begin and at the end of each loan
    private bool _isReusable = true;
    private CancellationTokenRegistration _registration;

    internal enum CallState
    {
        Waiting,
        Sending, // the sender reads the request, and ends the call if an end arrives in the meantime
        Sent,
        Ended,
    }

    internal enum CallEnd
    {
        None,
        Answered,
        Lost,
        NotSent,
        Timeout,
        Cancelled,
        Failed,
    }

    internal CallState State
    {
        get => _state;
        set => _state = value;
    }

    /// <summary>How the call ended, or is to end.</summary>
    internal CallEnd End { get; set; }

    /// <summary>True if the request was passed to a connection.</summary>
    internal bool WasSent { get; set; }

    internal ulong Id { get; set; }

    internal ReadOnlyMemory<byte> Request { get; private set; }

    internal int RequestBytes { get; private set; }

    internal long DeadlineMs { get; private set; }

    internal TimeSpan Timeout { get; private set; }

    internal CancellationToken Token { get; private set; }

    internal Exception? Wrong { get; set; }

    /// <summary>Reason why the connection ended, if that ended the call.</summary>
    internal CloseReason CloseReason { get; set; }

    /// <summary>Neighbours in the client's list of waiting calls or calls in flight.</summary>
    internal Call? Before { get; set; }

    internal Call? After { get; set; }

    /// <summary>Next call in a chain of ended calls whose tasks are to be completed.</summary>
    internal Call? NextEnded { get; set; }

    internal void Begin(ReadOnlyMemory<byte> request, TimeSpan timeout, long deadlineMs, CancellationToken token)
    {
        Request = request;
        RequestBytes = request.Length;
        Timeout = timeout;
        DeadlineMs = deadlineMs;
        Token = token;
        End = CallEnd.None;
        CloseReason = default;
        WasSent = false;
        _isReusable = true;
    }

    /// <summary>
    /// Registers the cancellation after the call has begun. The caller does not have the task yet, so the object cannot
    /// be reused before this, even if the call has ended.
    /// </summary>
    internal void WatchCancellation()
    {
        TokenWatch.Store(ref _registration, Token.UnsafeRegister(static state => ((Call)state!).Cancel(), this));
        if (State == CallState.Ended && !_registration.Unregister()) _isReusable = false;
    }

    private void Cancel() => owner.Cancel(this);

    // ------------------------------------------------------------------ the end

    /// <summary>
    /// Completes the task. Called outside of the client's lock by the thread that has ended the call.
    /// </summary>
    internal void Tell()
    {
        // A cancellation that runs at this moment could cancel the next call of this object, so the object is not
        // reused.
        if (Token.CanBeCanceled && !_registration.Unregister()) _isReusable = false;
        Request = default;
        switch (End)
        {
            case CallEnd.Answered:
                SetResult(new CallAnswer(this, _loan));
                break;
            case CallEnd.Cancelled:
                SetException(new OperationCanceledException(Token));
                break;
            case CallEnd.Failed:
                SetException(Wrong!);
                break;
            case CallEnd.Timeout:
                SetException(new CallException(CallFailure.Timeout, WasSent, $"No answer from {owner.RemoteText} "
                    + $"within {Timeout}{(WasSent ? "" : "; the request was not sent")}."));
                break;
            case CallEnd.Lost:
                SetException(new CallException(
                    CallFailure.ConnectionLost,
                    mayHaveBeenHandled: true,
                    $"The connection to {owner.RemoteText} ended before the answer came; the request may have been "
                    + $"handled. The reason of the end: {CloseReason}.")
                { CloseReason = CloseReason });
                break;
            default:
                SetException(NotSent(owner.RemoteText, CloseReason));
                break;
        }
    }

    internal static CallException NotSent(string remote, CloseReason last) => new(
        CallFailure.NotSent,
        mayHaveBeenHandled: false,
        $"There is no connection to {remote}, and no connect is in progress: "
            + (last.Cause == CloseCause.None
                ? "await ConnectAsync first"
                : $"the last one ended ({last}). Await ConnectAsync again, or set a ReconnectPolicy")
            + ". The request was not sent.")
    { CloseReason = last };

    internal void SetAnswer(ReadOnlySpan<byte> body)
    {
        if (body.Length > _answer.Length)
            _answer = body.Length <= KeptBytes ? new byte[KeptBytes] : ArrayPool<byte>.Shared.Rent(body.Length);
        body.CopyTo(_answer);
        _length = body.Length;
        _loan++;
    }

    // ------------------------------------------------------------------ the awaiter

    internal ReadOnlyMemory<byte> AnswerOf(int loan)
    {
        if (Volatile.Read(ref _loan) != loan) Throw.Disposed(nameof(CallAnswer));
        return _answer.AsMemory(0, _length);
    }

    internal void EndLoan(int loan)
    {
        if (Interlocked.CompareExchange(ref _loan, loan + 1, loan) != loan) return;
        if (_answer.Length > KeptBytes)
        {
            ArrayPool<byte>.Shared.Return(_answer);
            _answer = [];
        }

        if (_isReusable) owner.Return(this);
    }

    private protected override void Consumed()
    {
        Reset();
        if (End != CallEnd.Answered && _isReusable) owner.Return(this);
    }
}
