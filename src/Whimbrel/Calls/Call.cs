using System.Buffers;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel;

/// <summary>
/// One call: what its caller awaits, and the memory of its answer. Belongs to the client from the call to its end, then to the awaiter, and while an answer is on loan to
/// who has that; then it is the client's again, for another call. What is not of <see cref="Completion{T}"/> or of the loan is guarded by the client's gate.
/// </summary>
internal sealed class Call(CallClient owner) : Completion<CallAnswer>(owner.Engine)
{
    /// <summary>A larger answer is on loan from the pool of all, so that a burst of large ones does not stay.</summary>
    private const int KeptBytes = 4 * 1024;

    private volatile CallState _state; // who watches a token looks at it outside of the gate
    private byte[] _answer = [];
    private int _length;
    private int _loan; // grows with each loan, and with the end of it
    private bool _isReusable = true;
    private CancellationTokenRegistration _registration;

    internal enum CallState
    {
        Waiting,
        Sending, // by somebody who reads the request, and who ends it when an end comes meanwhile
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

    /// <summary>How it ended, or is to end.</summary>
    internal CallEnd End { get; set; }

    /// <summary>Given to a connection.</summary>
    internal bool WasSent { get; set; }

    internal ulong Id { get; set; }

    internal ReadOnlyMemory<byte> Request { get; private set; }

    internal int RequestBytes { get; private set; }

    internal long DeadlineMs { get; private set; }

    internal TimeSpan Timeout { get; private set; }

    internal CancellationToken Token { get; private set; }

    internal Exception? Wrong { get; set; }

    /// <summary>In the client's list of those that wait or of those in flight.</summary>
    internal Call? Before { get; set; }

    internal Call? After { get; set; }

    /// <summary>In a chain of calls that have ended and are to be told.</summary>
    internal Call? NextEnded { get; set; }

    internal void Begin(ReadOnlyMemory<byte> request, TimeSpan timeout, long deadlineMs, CancellationToken token)
    {
        Request = request;
        RequestBytes = request.Length;
        Timeout = timeout;
        DeadlineMs = deadlineMs;
        Token = token;
        End = CallEnd.None;
        WasSent = false;
        _isReusable = true;
    }

    /// <summary>When the call has begun: the caller has not seen the task yet, so that it is nobody else's, however it has ended.</summary>
    internal void WatchCancellation()
    {
        TokenWatch.Store(ref _registration, Token.UnsafeRegister(static state => ((Call)state!).Cancel(), this));
        if (State == CallState.Ended && !_registration.Unregister()) _isReusable = false;
    }

    private void Cancel() => owner.Cancel(this);

    // ------------------------------------------------------------------ the end

    /// <summary>Outside of the client's gate, by who has ended it.</summary>
    internal void Tell()
    {
        // A cancellation that runs at this moment would find the next call: then there is no next one.
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
                SetException(new CallException(CallFailure.Timeout, WasSent, $"No answer from {owner.RemoteText} within {Timeout}{(WasSent ? "" : "; the request was not sent")}."));
                break;
            case CallEnd.Lost:
                SetException(new CallException(CallFailure.ConnectionLost, mayHaveBeenHandled: true, $"The connection to {owner.RemoteText} ended before the answer came; the request may have been handled."));
                break;
            default:
                SetException(NotSent(owner.RemoteText));
                break;
        }
    }

    internal static CallException NotSent(string remote) => new(CallFailure.NotSent, mayHaveBeenHandled: false, $"There is no connection to {remote}, and none is dialled: await ConnectAsync first. The request was not sent.");

    internal void SetAnswer(ReadOnlySpan<byte> body)
    {
        if (body.Length > _answer.Length) _answer = body.Length <= KeptBytes ? new byte[KeptBytes] : ArrayPool<byte>.Shared.Rent(body.Length);
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
