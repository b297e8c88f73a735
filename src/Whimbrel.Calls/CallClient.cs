using System.Buffers;
using System.Numerics;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using static Whimbrel.Call;

namespace Whimbrel;

/// <summary>
/// A client for requests with answers: many concurrent calls over one connection, each with an id that identifies its
/// answer, in any order. The members of <see cref="Client"/> are available: it reconnects by its policy, and calls that
/// have not been sent wait for that.
/// </summary>
/// <remarks>
/// <para>A call ends exactly once: with its answer, at its timeout, by its token, or with its connection; its
/// <see cref="CallException"/> then states whether the request may have been handled. No request is sent twice.</para>
/// <para>Calls may be made on any thread. Code that awaits on a loop resumes there, code in a callback on the pool in
/// its session's order, and other code on the thread pool: never inside the code that received the answer.</para>
/// <para>At <see cref="CallOptions.InFlightLimit"/> and <see cref="CallOptions.InFlightLimitBytes"/> calls wait in FIFO
/// order, and so they do while a connection is opened; above <see cref="CallOptions.WaitingLimit"/> they are rejected.
/// The wait counts against the timeout of the call.</para>
/// </remarks>
public class CallClient : Client
{
    private const int MostFree = 1024;

    // Guards all fields below. Calls are made on any thread, and answers arrive on the session's: no user code runs
    // inside, and no task is completed.
    private readonly Lock _gate = new();
    // calls in flight, by the low bits of their ids; twice the limit, so that a free slot is near
    private readonly Call?[] _table;
    private readonly Stack<Call> _free = [];
    private readonly CallList _inFlight = new();
    private readonly CallList _waiting = new();
    private readonly ulong _idMask;
    private CallClientSession? _session;
    private LoopTimer? _timer;
    private long _nextLookMs = long.MaxValue;
    private long _bytesInFlight;
    private ulong _lastId;
    private CloseReason _lastEnd; // of the last connection
    private long _lateAnswers;
    private long _unknownAnswers;

    /// <summary>Creates a client. Opens nothing before <see cref="Client.ConnectAsync"/>.</summary>
    /// <param name="options">Address, engine, TLS, reconnect policy and connection limits. Copied.</param>
    /// <param name="format">Format of requests and answers in the stream; null for
    /// <see cref="CallFormat.LengthPrefix"/>.</param>
    /// <param name="calls">Limits of calls; null for the defaults.</param>
    public CallClient(ClientOptions options, CallFormat? format = null, CallOptions? calls = null)
        : base(options, static context => new CallClientSession((CallClient)context.Client!))
    {
        Format = format ?? CallFormat.LengthPrefix();
        Calls = calls ?? new CallOptions();
        Calls.Check(Format);
        _table = new Call?[BitOperations.RoundUpToPowerOf2((uint)Calls.InFlightLimit * 2)];
        _idMask = ulong.MaxValue >> (64 - Format.IdBits);
    }

    /// <summary>
    /// Creates a client with default options. Opens nothing before <see cref="Client.ConnectAsync"/>.
    /// </summary>
    /// <param name="address">Address to connect to, for example <c>tcp://localhost:1111</c>
    /// (<see cref="ClientOptions.Address"/>).</param>
    /// <param name="format">Format of requests and answers in the stream; null for
    /// <see cref="CallFormat.LengthPrefix"/>.</param>
    /// <param name="calls">Limits of calls; null for the defaults.</param>
    public CallClient(string address, CallFormat? format = null, CallOptions? calls = null)
        : this(new ClientOptions { Address = address ?? throw new ArgumentNullException(nameof(address)) },
            format, calls)
    {
    }

    /// <summary>Format of requests and answers in the stream.</summary>
    public CallFormat Format { get; }

    /// <summary>Limits of calls.</summary>
    public CallOptions Calls { get; }

    /// <summary>
    /// Number of calls that were sent and have not ended. Any thread; may have changed when it returns.
    /// </summary>
    public int CallsInFlight
    {
        get
        {
            lock (_gate) return _inFlight.Count;
        }
    }

    /// <summary>
    /// Number of calls that wait for space or for a connection. Any thread; may have changed when it returns.
    /// </summary>
    public int CallsWaiting
    {
        get
        {
            lock (_gate) return _waiting.Count;
        }
    }

    /// <summary>Number of answers to calls that had ended: late and duplicate ones. Any thread.</summary>
    public long LateAnswers => Volatile.Read(ref _lateAnswers);

    /// <summary>Number of answers with ids that were never sent on their connection. Any thread.</summary>
    public long UnknownAnswers => Volatile.Read(ref _unknownAnswers);

    // ------------------------------------------------------------------ calling: any thread

    /// <summary>Sends a request and completes with its answer.</summary>
    /// <param name="request">Body of the request. Must not change until the call has completed, because the call may
    /// have to wait.</param>
    /// <param name="timeout">Maximum time from now to the answer, 1 ms to 1 day or infinite; null for
    /// <see cref="CallOptions.Timeout"/>. Never early.</param>
    /// <param name="cancellationToken">Cancels the call: its answer is dropped when it arrives. A sent request is not
    /// recalled.</param>
    /// <returns>The answer, on loan: dispose it.</returns>
    /// <exception cref="CallException">Thrown to the awaiting code: there is no answer. Contains the reason, and
    /// whether the request may have been handled.</exception>
    /// <exception cref="OperationCanceledException">Thrown to the awaiting code: the token was cancelled.</exception>
    /// <exception cref="ArgumentException">Thrown to the awaiting code: the format cannot encode this
    /// request.</exception>
    public ValueTask<CallAnswer> CallAsync(ReadOnlyMemory<byte> request, TimeSpan? timeout = null,
        CancellationToken cancellationToken = default)
    {
        TimeSpan time = timeout ?? Calls.Timeout;
        if (time != Timeout.InfiniteTimeSpan && (time < TimeSpan.FromMilliseconds(1) || time > TimeSpan.FromDays(1)))
            Throw.OutOfRange(nameof(timeout), time, "1 ms to a day, or infinite");
        if (cancellationToken.IsCancellationRequested) return ValueTask.FromCanceled<CallAnswer>(cancellationToken);
        long deadlineMs = time == Timeout.InfiniteTimeSpan ? long.MaxValue : Engine.NextMs + Loop.WholeMs(time);
        Call? call;
        CallClientSession? session = null;
        CallException? refusal = null;
        lock (_gate)
        {
            bool goes = _session is not null && _waiting.First is null && HasRoom(request.Length);
            if (!goes) refusal = RefusalToWait();
            if (refusal is not null) return ValueTask.FromException<CallAnswer>(refusal);
            if (!_free.TryPop(out call)) call = new Call(this);
            call.Begin(request, time, deadlineMs, cancellationToken);
            if (deadlineMs < _nextLookMs) LookAt(deadlineMs);
            if (goes)
            {
                session = _session;
                Issue(call);
            }
            else
            {
                call.State = CallState.Waiting;
                _waiting.AddLast(call);
            }
        }

        ValueTask<CallAnswer> task = call.Task;
        if (session is not null && Send(call, session)) SendWaiting();
        if (cancellationToken.CanBeCanceled) call.WatchCancellation();
        return task;
    }

    /// <summary>
    /// Sends a message that is not a call, without waiting. Any thread. Returns the result of the send, and
    /// <c>Closed</c> without a connection.
    /// </summary>
    /// <param name="body">Body of the message. Copied.</param>
    /// <exception cref="ArgumentException">The format cannot encode this message.</exception>
    public SendResult Push(ReadOnlySpan<byte> body) =>
        Volatile.Read(ref _session) is { } session ? Format.Send(session, 0, body) : SendResult.Closed;

    /// <summary>
    /// Called when the server has sent a message that belongs to no call. On the session's thread; an exception ends
    /// the connection. Default: no action.
    /// </summary>
    /// <param name="body">Body of the message. Valid during the call only.</param>
    protected virtual void OnPush(ReadOnlySpan<byte> body)
    {
    }

    // ------------------------------------------------------------------ from the session

    internal void Opened(CallClientSession session)
    {
        lock (_gate)
        {
            session.LastIdBefore = _lastId;
            _session = session;
        }

        SendWaiting();
    }

    /// <summary>Processes an answer. Returns false if the connection is to be reset.</summary>
    internal bool Answered(CallClientSession session, ulong id, ReadOnlySpan<byte> body)
    {
        Call? call;
        bool isTold;
        lock (_gate)
        {
            call = _table[PlaceOf(id)];
            if (call is null || call.Id != id || call.End != CallEnd.None) return MayStray(session, id);
            isTold = TryEnd(call, CallEnd.Answered);
            // A thread that is sending the call completes it as soon as the send has returned.
            if (!isTold) call.SetAnswer(body);
        }

        if (isTold)
        {
            call.SetAnswer(body);
            call.Tell();
        }

        SendWaiting();
        return true;
    }

    internal void Pushed(ReadOnlySpan<byte> body) => OnPush(body);

    internal void Lost(CallClientSession session, CloseReason reason)
    {
        Call? ended = null;
        lock (_gate)
        {
            if (ReferenceEquals(_session, session)) _session = null;
            _lastEnd = reason;
            EndAll(_inFlight, CallEnd.Lost, ref ended);
        }

        TellAll(ended);
    }

    private protected override void BecameIdle()
    {
        Call? ended = null;
        lock (_gate)
        {
            // Another thread may have connected since.
            if (IsBusy) return;
            EndAll(_waiting, CallEnd.NotSent, ref ended);
        }

        TellAll(ended);
    }

    // ------------------------------------------------------------------ other ends

    internal void Cancel(Call call)
    {
        lock (_gate)
        {
            if (call.State == CallState.Ended || call.End != CallEnd.None || !TryEnd(call, CallEnd.Cancelled)) return;
        }

        call.Tell();
        SendWaiting();
    }

    /// <summary>Takes the call back when the awaiting code no longer uses it.</summary>
    internal void Return(Call call)
    {
        lock (_gate)
        {
            if (_free.Count < MostFree) _free.Push(call);
        }
    }

    /// <summary>Ends calls whose time has passed. On the loop of the timer.</summary>
    private void Look()
    {
        long now = Engine.NowMs;
        Call? ended = null;
        lock (_gate)
        {
            _nextLookMs = long.MaxValue;
            long next = Math.Min(EndOverdue(_waiting, now, ref ended), EndOverdue(_inFlight, now, ref ended));
            if (next != long.MaxValue) LookAt(next);
        }

        TellAll(ended);
        SendWaiting();
    }

    private long EndOverdue(CallList list, long now, ref Call? ended)
    {
        long next = long.MaxValue;
        Call? after;
        for (Call? call = list.First; call is not null; call = after)
        {
            after = call.After;
            if (call.DeadlineMs > now) next = Math.Min(next, call.DeadlineMs);
            else if (call.End == CallEnd.None) Chain(call, CallEnd.Timeout, ref ended);
        }

        return next;
    }

    private void EndAll(CallList list, CallEnd end, ref Call? ended)
    {
        Call? after;
        for (Call? call = list.First; call is not null; call = after)
        {
            after = call.After;
            if (call.End != CallEnd.None) continue;
            call.CloseReason = _lastEnd;
            Chain(call, end, ref ended);
        }
    }

    private void Chain(Call call, CallEnd end, ref Call? ended)
    {
        if (!TryEnd(call, end)) return;
        call.NextEnded = ended;
        ended = call;
    }

    private static void TellAll(Call? ended)
    {
        while (ended is { } call)
        {
            // After its completion the object may be reused at once.
            ended = call.NextEnded;
            call.NextEnded = null;
            call.Tell();
        }
    }

    // ------------------------------------------------------------------ sending

    private void SendWaiting()
    {
        while (true)
        {
            Call? call;
            CallClientSession? session;
            lock (_gate)
            {
                call = _waiting.First;
                session = _session;
                if (call is null || session is null || !HasRoom(call.RequestBytes)) return;
                _waiting.Remove(call);
                Issue(call);
            }

            Send(call, session);
        }
    }

    /// <summary>
    /// Sends a call. Outside of the lock, because the format is user code. Until it returns, other threads do not
    /// complete the call.
    /// </summary>
    /// <returns>True if there may be space for other calls: this one has ended, or waits again.</returns>
    private bool Send(Call call, CallClientSession session)
    {
        SendResult result = SendResult.Closed;
        Exception? wrong = null;
        try
        {
            result = Format.Send(session, call.Id, call.Request.Span);
            if (result == SendResult.Full)
            {
                SendWhenRoom(call, session);
                result = SendResult.Queued;
            }
        }
        catch (Exception e)
        {
            wrong = e;
        }

        return Sent(call, session, result, wrong);
    }

    /// <summary>
    /// Sends when there is space, because other messages have filled the send queue or the mailbox. Rare, so it may
    /// allocate. The call counts as sent in the meantime, so that it can end; a request sent after that leads to a late
    /// answer.
    /// </summary>
    private void SendWhenRoom(Call call, CallClientSession session)
    {
        ulong id = call.Id;
        ArrayBufferWriter<byte> frame = new();
        Format.Write(frame, id, call.Request.Span);
        SessionOrder.Begin(() => SendWhenRoomAsync(call, id, session, frame.WrittenMemory));
    }

    private async Task SendWhenRoomAsync(Call call, ulong id, CallClientSession session, ReadOnlyMemory<byte> frame)
    {
        if (await session.SendAsync(frame, CancellationToken.None).ConfigureAwait(false) == SendResult.Queued) return;
        lock (_gate)
        {
            if (call.Id != id || !ReferenceEquals(_table[PlaceOf(id)], call)) return;
            call.State = CallState.Sending;
        }

        if (Sent(call, session, SendResult.Closed, null)) SendWaiting();
    }

    private bool Sent(Call call, CallClientSession session, SendResult result, Exception? wrong)
    {
        bool isOver;
        lock (_gate)
        {
            call.WasSent = result == SendResult.Queued;
            call.State = CallState.Sent;
            if (wrong is not null)
            {
                call.Wrong = wrong;
                call.End = CallEnd.Failed;
            }
            else if (!call.WasSent)
            {
                // The connection is ending and will report it: no call is tried on it before that.
                if (ReferenceEquals(_session, session)) _session = null;
                if (call.End is CallEnd.None or CallEnd.Lost)
                {
                    call.End = IsBusy ? CallEnd.None : CallEnd.NotSent;
                    call.CloseReason = _lastEnd;
                }

                if (call.End == CallEnd.None)
                {
                    // Nothing of the request was sent, so the next connection may send it.
                    Leave(call);
                    call.State = CallState.Waiting;
                    _waiting.AddFirst(call);
                    return true;
                }
            }

            isOver = call.End != CallEnd.None;
            if (isOver)
            {
                Leave(call);
                call.State = CallState.Ended;
            }
        }

        if (isOver) call.Tell();
        return isOver;
    }

    // ------------------------------------------------------------------ the caller holds the lock

    private bool HasRoom(int bytes) => _inFlight.Count == 0
        || (_inFlight.Count < Calls.InFlightLimit && _bytesInFlight + bytes <= Calls.InFlightLimitBytes);

    private CallException? RefusalToWait()
    {
        if (_session is null && !IsBusy) return NotSent(RemoteText, _lastEnd);
        return _waiting.Count < Calls.WaitingLimit ? null
            : new CallException(CallFailure.Full, mayHaveBeenHandled: false, $"{_inFlight.Count} calls to {RemoteText} "
                + $"are in flight and {_waiting.Count} wait, as many as may; the request was not sent.");
    }

    private int PlaceOf(ulong id) => (int)id & (_table.Length - 1);

    private void Issue(Call call)
    {
        do _lastId = (_lastId + 1) & _idMask;
        while (_lastId == 0 || _table[PlaceOf(_lastId)] is not null);
        call.Id = _lastId;
        call.State = CallState.Sending;
        _table[PlaceOf(_lastId)] = call;
        _inFlight.AddLast(call);
        _bytesInFlight += call.RequestBytes;
    }

    /// <summary>Removes a call from those in flight.</summary>
    private void Leave(Call call)
    {
        _table[PlaceOf(call.Id)] = null;
        _inFlight.Remove(call);
        _bytesInFlight -= call.RequestBytes;
    }

    /// <summary>
    /// Ends a call. Returns true if the caller must complete it, outside of the lock; false if the thread that is
    /// sending it does.
    /// </summary>
    private bool TryEnd(Call call, CallEnd end)
    {
        call.End = end;
        if (call.State == CallState.Sending) return false;
        if (call.State == CallState.Waiting) _waiting.Remove(call);
        else Leave(call);
        call.State = CallState.Ended;
        return true;
    }

    /// <summary>Counts an answer without a call. Returns false if the connection is to be reset.</summary>
    private bool MayStray(CallClientSession session, ulong id)
    {
        ulong given = (_lastId - session.LastIdBefore) & _idMask, place = (id - session.LastIdBefore) & _idMask;
        bool isLate = id != 0 && id <= _idMask && place != 0 && place <= given;
        if (isLate) _lateAnswers++;
        else _unknownAnswers++;
        return Calls.StrayAnswers == StrayAnswers.Ignore
            || (isLate && Calls.StrayAnswers == StrayAnswers.ResetOnUnknown);
    }

    private void LookAt(long dueMs)
    {
        _nextLookMs = dueMs;
        _timer ??= new Deadlines(this);
        _timer.Start(TimeSpan.FromMilliseconds(Math.Max(0, dueMs - Engine.NowMs)));
    }

    internal string RemoteText => Options.Address ?? Options.EndPoint?.ToString() ?? "the server";

    private sealed class Deadlines(CallClient owner) : LoopTimer(owner.Options.Loop ?? owner.Engine.GetLoop(0))
    {
        protected override void OnFired(bool isCancelled)
        {
            if (!isCancelled) owner.Look();
        }
    }
}
