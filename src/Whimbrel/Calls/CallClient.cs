using System.Buffers;
using System.Numerics;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using static Whimbrel.Call;

namespace Whimbrel;

/// <summary>
/// A client that asks and awaits answers: many calls at once over one connection, each with an id by which its answer is found, in whatever order they come. What
/// <see cref="Client"/> has is there: it dials again by its policy, and calls that have not been sent wait for that.
/// </summary>
/// <remarks>
/// <para>A call ends exactly once: with its answer, after its time, by its token, or with its connection; then its <see cref="CallException"/> says whether the
/// request may have been handled. Nothing is sent a second time.</para>
/// <para>Calls come from any thread. Who awaits on a loop goes on there, who awaits in a callback on the pool in its session's order, and everybody else on the
/// thread pool: never inside the stack of what brought the answer.</para>
/// <para>At <see cref="CallOptions.InFlightLimit"/> and <see cref="CallOptions.InFlightLimitBytes"/> calls wait, first come first served, and so they do while a connection is
/// dialled; above <see cref="CallOptions.WaitingLimit"/> they are refused. Waiting counts against the time of the call.</para>
/// </remarks>
public class CallClient : Client
{
    private const int MostFree = 1024;

    // Guards all below. Calls come from any thread, and answers on the session's: nothing of the user's and no end is told inside.
    private readonly Lock _gate = new();
    private readonly Call?[] _table; // those in flight, by the low bits of their ids; twice the limit, so that a free place is near
    private readonly Stack<Call> _free = [];
    private readonly CallList _inFlight = new();
    private readonly CallList _waiting = new();
    private readonly ulong _idMask;
    private CallClientSession? _session;
    private LoopTimer? _timer;
    private long _nextLookMs = long.MaxValue;
    private long _bytesInFlight;
    private ulong _lastId;
    private long _lateAnswers;
    private long _unknownAnswers;

    /// <summary>Makes a client; nothing is opened before <see cref="Client.ConnectAsync"/>.</summary>
    /// <param name="options">Where to connect, engine, TLS, reconnecting and the limits of connections. Copied.</param>
    /// <param name="format">How requests and answers lie in the stream; null for <see cref="CallFormat.LengthPrefix"/>.</param>
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

    /// <summary>Makes a client with default options; nothing is opened before <see cref="Client.ConnectAsync"/>.</summary>
    /// <param name="address">Where to connect, for example <c>tcp://localhost:1111</c> (<see cref="ClientOptions.Address"/>).</param>
    /// <param name="format">How requests and answers lie in the stream; null for <see cref="CallFormat.LengthPrefix"/>.</param>
    /// <param name="calls">Limits of calls; null for the defaults.</param>
    public CallClient(string address, CallFormat? format = null, CallOptions? calls = null)
        : this(new ClientOptions { Address = address ?? throw new ArgumentNullException(nameof(address)) }, format, calls)
    {
    }

    /// <summary>How requests and answers lie in the stream.</summary>
    public CallFormat Format { get; }

    /// <summary>Limits of calls.</summary>
    public CallOptions Calls { get; }

    /// <summary>Calls that have been sent and have not ended. Any thread; may have changed when it returns.</summary>
    public int CallsInFlight
    {
        get
        {
            lock (_gate) return _inFlight.Count;
        }
    }

    /// <summary>Calls that wait for room or for a connection. Any thread; may have changed when it returns.</summary>
    public int CallsWaiting
    {
        get
        {
            lock (_gate) return _waiting.Count;
        }
    }

    /// <summary>Answers to calls that had ended: late ones, and second ones. Any thread.</summary>
    public long LateAnswers => Volatile.Read(ref _lateAnswers);

    /// <summary>Answers with ids that were never given on their connection. Any thread.</summary>
    public long UnknownAnswers => Volatile.Read(ref _unknownAnswers);

    // ------------------------------------------------------------------ calling: any thread

    /// <summary>Sends a request and completes with its answer.</summary>
    /// <param name="request">The body. It must not change until the call has completed: it may have to wait.</param>
    /// <param name="timeout">Time from now to the answer, 1 ms to a day or infinite; null for <see cref="CallOptions.Timeout"/>. Never early.</param>
    /// <param name="cancellationToken">Gives up: the answer is dropped when it comes. What was sent is not called back.</param>
    /// <returns>The answer, on loan: dispose it.</returns>
    /// <exception cref="CallException">(To who awaits.) There is no answer; it says why, and whether the request may have been handled.</exception>
    /// <exception cref="OperationCanceledException">(To who awaits.) The token was cancelled.</exception>
    /// <exception cref="ArgumentException">(To who awaits.) The format cannot say this request.</exception>
    public ValueTask<CallAnswer> CallAsync(ReadOnlyMemory<byte> request, TimeSpan? timeout = null, CancellationToken cancellationToken = default)
    {
        TimeSpan time = timeout ?? Calls.Timeout;
        if (time != Timeout.InfiniteTimeSpan && (time < TimeSpan.FromMilliseconds(1) || time > TimeSpan.FromDays(1))) Throw.OutOfRange(nameof(timeout), time, "1 ms to a day, or infinite");
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

    /// <summary>Sends a message that is no call, and waits for nothing. Any thread; the result is that of a send, and <c>Closed</c> without a connection.</summary>
    /// <param name="body">The body. Copied.</param>
    /// <exception cref="ArgumentException">The format cannot say this.</exception>
    public SendResult Push(ReadOnlySpan<byte> body) => Volatile.Read(ref _session) is { } session ? Format.Send(session, 0, body) : SendResult.Closed;

    /// <summary>The server has sent a message that belongs to no call. On the session's thread; what it throws ends the connection. Default: nothing.</summary>
    /// <param name="body">Valid during the call only.</param>
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

    /// <summary>False: the connection is to be reset.</summary>
    internal bool Answered(CallClientSession session, ulong id, ReadOnlySpan<byte> body)
    {
        Call? call;
        bool isTold;
        lock (_gate)
        {
            call = _table[PlaceOf(id)];
            if (call is null || call.Id != id || call.End != CallEnd.None) return MayStray(session, id);
            isTold = TryEnd(call, CallEnd.Answered);
            // Whoever sends it tells, as soon as this is over.
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

    internal void Lost(CallClientSession session)
    {
        Call? ended = null;
        lock (_gate)
        {
            if (ReferenceEquals(_session, session)) _session = null;
            EndAll(_inFlight, CallEnd.Lost, ref ended);
        }

        TellAll(ended);
    }

    private protected override void BecameIdle()
    {
        Call? ended = null;
        lock (_gate)
        {
            // Somebody may have dialled since.
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

    /// <summary>The call is its awaiter's no more.</summary>
    internal void Return(Call call)
    {
        lock (_gate)
        {
            if (_free.Count < MostFree) _free.Push(call);
        }
    }

    /// <summary>Ends what has had its time. On the loop of the timer.</summary>
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
            if (call.End == CallEnd.None) Chain(call, end, ref ended);
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
            // Told, it may be used again at once.
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

    /// <summary>Outside of the gate: the format is the user's. Meanwhile nobody tells the call's end.</summary>
    /// <returns>There may be room for others: it has ended, or waits again.</returns>
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
    /// Others have filled the queue of the connection, or the mailbox. Rare: this may allocate. The call counts as sent meanwhile, so that it can end; what is sent then is a request
    /// whose answer is a late one.
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
                // It is ending, and will say so: nobody tries it again before.
                if (ReferenceEquals(_session, session)) _session = null;
                if (call.End is CallEnd.None or CallEnd.Lost) call.End = IsBusy ? CallEnd.None : CallEnd.NotSent;
                if (call.End == CallEnd.None)
                {
                    // Nothing of it has left: the next connection may have it.
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

    // ------------------------------------------------------------------ under the gate

    private bool HasRoom(int bytes) => _inFlight.Count == 0 || (_inFlight.Count < Calls.InFlightLimit && _bytesInFlight + bytes <= Calls.InFlightLimitBytes);

    private CallException? RefusalToWait()
    {
        if (_session is null && !IsBusy) return NotSent(RemoteText);
        return _waiting.Count < Calls.WaitingLimit ? null
            : new CallException(CallFailure.Full, mayHaveBeenHandled: false, $"{_inFlight.Count} calls to {RemoteText} are in flight and {_waiting.Count} wait, as many as may; the request was not sent.");
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

    /// <summary>Out of flight.</summary>
    private void Leave(Call call)
    {
        _table[PlaceOf(call.Id)] = null;
        _inFlight.Remove(call);
        _bytesInFlight -= call.RequestBytes;
    }

    /// <summary>True: the caller tells it, outside of the gate. False: whoever sends it at this moment does.</summary>
    private bool TryEnd(Call call, CallEnd end)
    {
        call.End = end;
        if (call.State == CallState.Sending) return false;
        if (call.State == CallState.Waiting) _waiting.Remove(call);
        else Leave(call);
        call.State = CallState.Ended;
        return true;
    }

    /// <summary>False: the connection is to be reset.</summary>
    private bool MayStray(CallClientSession session, ulong id)
    {
        ulong given = (_lastId - session.LastIdBefore) & _idMask, place = (id - session.LastIdBefore) & _idMask;
        bool isLate = id != 0 && id <= _idMask && place != 0 && place <= given;
        if (isLate) _lateAnswers++;
        else _unknownAnswers++;
        return Calls.StrayAnswers == StrayAnswers.Ignore || (isLate && Calls.StrayAnswers == StrayAnswers.ResetOnUnknown);
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
