using System.Diagnostics;
using Whimbrel.Http.Parsing;
using Awaiter = System.Runtime.CompilerServices.ConfiguredValueTaskAwaitable.ConfiguredValueTaskAwaiter;

namespace Whimbrel.Http;

// From requests to answers. The handlers run here; what they leave behind on other threads comes back by Post.
public partial class HttpSession
{
    private const string ErrorHookAdvice = "HttpServer.OnError takes a hook that gets request and exception.";
    private const string ResetOutcome = "A part of the answer had been sent, so the connection is reset.";

    private volatile bool _isHandlerRunning;
    private bool _isDoneHere;
    private int _requestThread;

    // ------------------------------------------------------------------ one request

    /// <summary>True: there may be more to read.</summary>
    private bool Dispatch()
    {
        _phase = Phase.Answer;
        Exchange.IsKeptWhole = true;
        Run(Exchange.IsPreflight ? Stage.Preflight : Stage.Request);
        if (_phase != Phase.Answer) return false;
        ServerExchange exchange = Exchange;
        if (_isHandlerRunning) return exchange.Stream is not null;
        // A large answer is given in pieces, as the peer takes them.
        if (exchange.Answer.IsEnding) FinishLater(default);
        // What another thread has answered already is still on its way to the queue: it goes on when its Advance is here.
        return !_isHandlerRunning && _isDoneHere && exchange.Answer.IsDone ? FinishExchange() : exchange.Stream is not null;
    }

    /// <summary>What the session does for the request that is being answered.</summary>
    private enum Stage : byte
    {
        /// <summary>A browser asks before its request.</summary>
        Preflight,

        /// <summary>The request is there.</summary>
        Request,

        /// <summary>A filter that was waited for let it pass.</summary>
        AfterFilter,

        /// <summary>The handler has thrown, or a filter.</summary>
        Failed,

        /// <summary>The error hook that was waited for gave no answer.</summary>
        Unhandled,
    }

    /// <summary>Runs overrides and handlers. An answer that one of them gives here is seen by the caller, which finishes the exchange. On the session's thread.</summary>
    private void Run(Stage stage, Exception? error = null)
    {
        _isDoneHere = false;
        _requestThread = Environment.CurrentManagedThreadId;
        Activity? traced = Exchange.Activity, outer = traced is null ? null : HttpTraces.Enter(traced);
        try
        {
            switch (stage)
            {
                case Stage.Preflight:
                    Exchange.Response.Empty(204);
                    break;
                case Stage.Request:
                    OnRequest(Exchange.Request);
                    break;
                case Stage.AfterFilter:
                    RunFilters(FiltersOf(Exchange)!, Exchange.NextFilter);
                    break;
                case Stage.Failed:
                    HandlerThrew(error!);
                    break;
                default:
                    Fail(Exchange.Failure!);
                    break;
            }
        }
        catch (Exception e)
        {
            HandlerThrew(e);
        }
        finally
        {
            _requestThread = 0;
            if (traced is not null) HttpTraces.Enter(outer);
        }
    }

    /// <summary>The same, posted: nothing was waited for when it began, and the session goes on behind it.</summary>
    private void RunPosted(Stage stage, Exception? error = null)
    {
        Run(stage, error);
        // What another thread has answered meanwhile brings an Advance of its own.
        if (_phase == Phase.Answer && !_isHandlerRunning && (_isDoneHere || Exchange.Answer.IsEnding)) Advance();
    }

    private bool FinishExchange()
    {
        NoteAnswer();
        // The server may have begun to stop when the head of the answer had left.
        if (Exchange.Answer.Closes || _isLast)
        {
            End(_saidAll && UnreadCount == 0);
            return false;
        }

        if (Exchange.Body.IsDone) return NextRequest();
        _phase = Phase.Skip;
        Exchange.EndHandles();
        Exchange.Skipped = 0;
        Exchange.BodySinceMs = Loop.TimeMs;
        Exchange.BodyWaitedMs = 0;
        return true;
    }

    /// <summary>The answer is complete, or a handler is. Any thread, also inside the handler.</summary>
    internal void AnswerDone()
    {
        if (IsInRequest) _isDoneHere = true; // its own callback goes on by itself
        else if (!_isHandlerRunning) Post(static s => ((HttpSession)s!).Advance(), this);
    }

    private void Advance()
    {
        if (_phase != Phase.Answer || _isHandlerRunning) return;
        ServerAnswer answer = Exchange.Answer;
        if (answer.IsEnding)
        {
            FinishLater(default);
            if (_isHandlerRunning) return;
        }

        // The one that completes it comes back when its bytes are in the queue.
        if (!answer.IsDone || answer.IsCompleting) return;
        bool wasOffered = !FinishExchange(); // on the pool, where that tells of nothing when there is none
        if (_phase == Phase.Over) return;
        if (_peerFinished && UnreadCount == 0) End();
        else if (!wasOffered && (UnreadCount > 0 || _isPaused)) Reoffer();
        else if (_phase == Phase.Skip) WatchBody();
        else WatchQuiet();
    }

    // ------------------------------------------------------------------ routes

    private void RunRoute()
    {
        if (FiltersOf(Exchange) is { } filters) RunFilters(filters, 0);
        else RunHandler();
    }

    private RouteHandler[]? FiltersOf(ServerExchange exchange) => _routes!.FiltersOf(exchange.Found);

    /// <summary>Runs filters, then the handler, unless one of them answers or has to be waited for.</summary>
    private void RunFilters(RouteHandler[] filters, int first)
    {
        ServerExchange exchange = Exchange;
        HttpRequest request = exchange.Request;
        HttpResponse response = exchange.Response;
        for (int i = first; i < filters.Length; i++)
        {
            if (filters[i].OnLoop is { } filter) filter(request, response);
            else
            {
                ValueTask running = filters[i].Awaitable!(request, response, Stop);
                if (!running.IsCompleted)
                {
                    exchange.NextFilter = i + 1;
                    exchange.Waits = ExchangeWait.Filter;
                    Await(AwaiterOf(running), exchange.HandlerEnded);
                    return;
                }

                running.GetAwaiter().GetResult();
            }

            if (!exchange.Answer.HasBegun)
            {
                exchange.FilterFields = exchange.Answer.FieldBytes;
                continue;
            }

            if (_phase == Phase.Answer && !exchange.Answer.IsDone) FinishLater(default);
            return;
        }

        RunHandler();
    }

    private void RunHandler()
    {
        ServerExchange exchange = Exchange;
        HttpRequest request = exchange.Request;
        HttpResponse response = exchange.Response;
        if (exchange.Found.Route is not { } route)
        {
            _routes!.Refuse(exchange.Found, response);
            return;
        }

        if (route.Site is { } site)
        {
            if (!site.TryAnswer(request, response)) FinishLater(site.AnswerAsync(request, response));
            return;
        }

        if (route.Handler.OnLoop is { } handler)
        {
            handler(request, response);
            // One that goes to another protocol has ended the exchange.
            if (_phase == Phase.Answer && !exchange.Answer.IsDone) FinishLater(default);
            return;
        }

        FinishLater(route.Handler.Awaitable!(request, response, Stop));
    }

    /// <summary>Waits for the handler, then for the end of its answer: at once when both are there, else the session goes on when they are.</summary>
    /// <remarks>
    /// What is waited for has one owner: this thread up to the registration, then whoever completes it, until <see cref="HandlerDone"/> is back on the session's thread.
    /// Steps with two delegates that the exchange keeps, and no async method: the runtime keeps one state of such a method for each thread, which does not go far where many wait.
    /// </remarks>
    private void FinishLater(ValueTask handler)
    {
        ServerExchange exchange = Exchange;
        if (!handler.IsCompleted)
        {
            exchange.Waits = ExchangeWait.Handler;
            Await(AwaiterOf(handler), exchange.HandlerEnded);
            return;
        }

        bool isWaiting = false;
        try
        {
            handler.GetAwaiter().GetResult();
            Awaiter ending = AwaiterOf(exchange.EndAnswerAsync());
            isWaiting = !ending.IsCompleted;
            if (isWaiting) Await(ending, exchange.AnswerEnded);
            else ending.GetResult();
        }
        finally
        {
            if (!isWaiting) exchange.ReleaseEncoder();
        }
    }

    // From here on AnswerDone leaves it to HandlerDone to go on, so the mark is set only when that is sure to come.
    private void Await(Awaiter awaited, Action continuation)
    {
        Exchange.Awaited = awaited;
        _isHandlerRunning = true;
        awaited.UnsafeOnCompleted(continuation);
    }

    private static Awaiter AwaiterOf(ValueTask task) => task.ConfigureAwait(false).GetAwaiter();

    /// <summary>The handler has ended: the rest of its answer leaves from the same thread. Any thread.</summary>
    internal void HandlerEnded(ServerExchange exchange)
    {
        Awaiter handler = exchange.Awaited;
        exchange.Awaited = default;
        try
        {
            handler.GetResult();
        }
        catch (Exception e)
        {
            LeaveHandler(exchange, e);
            return;
        }

        if (exchange.Waits != ExchangeWait.Handler && (exchange.IsBroken || !exchange.Answer.HasBegun))
        {
            // A filter lets the request pass, or the error hook has no answer: the session's thread goes on.
            LeaveHandler(exchange, null);
            return;
        }

        exchange.Waits = ExchangeWait.Handler;
        Awaiter ending;
        try
        {
            ending = exchange.Awaited = AwaiterOf(exchange.EndAnswerAsync());
        }
        catch (InvalidOperationException e)
        {
            LeaveHandler(exchange, e); // a write is pending
            return;
        }

        if (ending.IsCompleted) AnswerEnded(exchange);
        else ending.UnsafeOnCompleted(exchange.AnswerEnded);
    }

    internal void AnswerEnded(ServerExchange exchange)
    {
        Awaiter ending = exchange.Awaited;
        exchange.Awaited = default;
        Exception? error = null;
        try
        {
            ending.GetResult();
        }
        catch (Exception e)
        {
            error = e;
        }

        LeaveHandler(exchange, error);
    }

    private void LeaveHandler(ServerExchange exchange, Exception? error)
    {
        exchange.ReleaseEncoder(); // also when the connection has ended
        exchange.HandlerError = error;
        bool isPosted;
        using (GatherWakes()) isPosted = Post(static s => ((HttpSession)s!).HandlerDone(), this);
        if (!isPosted) exchange.EndHandles();
    }

    private void HandlerDone()
    {
        _isHandlerRunning = false;
        Interlocked.MemoryBarrier(); // a member that completes the answer looks at it when it ends: one of the two sees the other
        if (_phase == Phase.Over) _exchange?.EndHandles();
        if (_exchange is not { } exchange || (exchange.HandlerError is null && exchange.Waits == ExchangeWait.Handler))
        {
            Advance();
            return;
        }

        Exception? error = exchange.HandlerError;
        exchange.HandlerError = null;
        if (_phase != Phase.Answer) return;
        if (error is not null) RunPosted(Stage.Failed, error);
        else RunPosted(exchange.Waits == ExchangeWait.Filter ? Stage.AfterFilter : Stage.Unhandled);
    }

    // ------------------------------------------------------------------ what goes wrong

    private void HandlerThrew(Exception exception)
    {
        ServerExchange? exchange = _exchange;
        if (exchange?.Failure is { } first)
        {
            // The error hook has thrown, and so has nothing to say.
            NoteException(exception, "The error hook of an HttpServer", outcome: OutcomeOf(exchange));
            Fail(first);
            return;
        }

        bool isPeers = exception is HttpProtocolException || (exception is OperationCanceledException && _stop is { IsCancellationRequested: true }) || (exception is IOException && !IsConnected);
        if (isPeers)
        {
            if (exception is not HttpProtocolException mistake || exchange is null || !TryTakeAnswer(exchange)) AbortAnswer(exception, isPeers);
            else Answer(mistake.Status, mistake.Message.TrimEnd('.'));
            return;
        }

        Count(HttpCount.HandlerErrors);
        if (exchange is not null && _phase == Phase.Answer && _routes?.ErrorHook is { } hook) RunErrorHook(exchange, hook, exception);
        else Fail(exception);
    }

    private void RunErrorHook(ServerExchange exchange, Func<HttpRequest, HttpResponse, Exception, ValueTask> hook, Exception exception)
    {
        exchange.Failure = exception;
        exchange.IsBroken = !TryTakeAnswer(exchange);
        if (!exchange.IsBroken)
        {
            HttpReader reader = exchange.Head.Reader;
            BeginAgain(exchange, reader.Verb == HttpVerb.Head, reader.MinorVersion == 0, reader.IsPersistent);
        }

        try
        {
            ValueTask running = hook(exchange.Request, exchange.Response, exception);
            if (!running.IsCompleted)
            {
                exchange.Waits = ExchangeWait.ErrorHook;
                Await(AwaiterOf(running), exchange.HandlerEnded);
                return;
            }

            running.GetAwaiter().GetResult();
            if (exchange.IsBroken || !exchange.Answer.HasBegun) Fail(exception);
            else if (!exchange.Answer.IsDone) FinishLater(default);
        }
        catch (Exception e)
        {
            HandlerThrew(e);
        }
    }

    /// <summary>Nobody has answered for an exception: a notice, and 500, or an abort when there is a part of an answer.</summary>
    private void Fail(Exception exception)
    {
        string outcome = OutcomeOf(_exchange);
        if (_exchange?.Found.Route is { } route) NoteException(exception, $"The handler of {route.Text}", _routes?.ErrorHook is null ? ErrorHookAdvice : "", outcome);
        else NoteException(exception, nameof(OnRequest), outcome: outcome);
        if (_exchange is not { } exchange || !TryTakeAnswer(exchange)) AbortAnswer(exception, isPeers: false);
        else Answer(500, "The handler failed", ErrorOf(exception, isPeers: false));
    }

    /// <summary>The stop of the server has reset a connection whose handler still ran. Perhaps that handler awaits the stop.</summary>
    private void NoteStopOverdue(ServerExchange exchange)
    {
        if (exchange.Found.Route is not { } route || Server is not { } server || !_routes!.TryNoteStop(Loop.TimeMs)) return;
        server.Note(new Notice(
            NoticeKind.StopOverdue,
            $"The handler of {route.Text} had not ended at the deadline of the server's stop: its connection was reset, without a whole answer. A handler that awaits StopAsync or DisposeAsync of its own server waits for itself: begin the stop without awaiting it (_ = server.StopAsync()), and answer.",
            "stop-overdue.md"));
    }

    /// <summary>What the client gets when its handler has thrown, for the notice.</summary>
    private string OutcomeOf(ServerExchange? exchange)
    {
        if (exchange is null || !exchange.TryEnterWriter()) return ResetOutcome;
        try
        {
            if (!exchange.Answer.HasBegun) return "The client gets 500.";
            return exchange.Answer.IsWhole && _phase == Phase.Answer ? "The client gets the answer that was complete before." : ResetOutcome;
        }
        finally
        {
            exchange.LeaveWriter();
        }
    }

    /// <summary>The answer was not begun, and from here on no handle of its handler can begin it.</summary>
    private static bool TryTakeAnswer(ServerExchange exchange)
    {
        if (!exchange.TryEnterWriter()) return false;
        bool isOpen = !exchange.Answer.HasBegun;
        if (isOpen) exchange.EndHandles();
        exchange.LeaveWriter();
        return isOpen;
    }

    /// <summary>A part of the answer was given: the connection ends. An answer that was given as a whole is delivered.</summary>
    private void AbortAnswer(Exception exception, bool isPeers)
    {
        if (_exchange is { } exchange)
        {
            bool isEntered = exchange.TryEnterWriter(), isWhole = isEntered && exchange.Answer.IsWhole && _phase == Phase.Answer;
            if (!isWhole) NoteAnswer(wentAway: isPeers, ErrorOf(exception, isPeers));
            if (isEntered) exchange.LeaveWriter();
            if (isWhole)
            {
                _isDoneHere = true;
                return;
            }
        }

        ReleaseExchange();
        _phase = Phase.Over;
        Abort();
    }

    /// <summary>For the meter: a handler that was told that its peer is gone says so by an exception of any kind.</summary>
    private string? ErrorOf(Exception exception, bool isPeers) => isPeers && _peerFinished ? nameof(CloseCause.PeerClosed) : exception.GetType().FullName;

    private bool Refuse(HttpRule rule) => Refuse(rule, HttpRules.TextOf(rule));

    private bool Refuse(HttpRule rule, string text)
    {
        int status = HttpRules.StatusOf(rule);
        NoteProtocolError(new HttpProtocolException(status, $"{text}."));
        return Refuse(status, text);
    }

    /// <summary>One answer that says what was wrong, and the end. False: nothing is to be read any more.</summary>
    private bool Refuse(int status, string text)
    {
        CountRefused(status);
        return Answer(status, text);
    }

    private bool Answer(int status, string text, string? error = null)
    {
        ServerExchange exchange = Exchange;
        exchange.EndHandles();
        BeginAgain(exchange, exchange.Head.Reader.Verb == HttpVerb.Head, isOld: false, isPersistent: false);
        exchange.Response.Fail(status, text);
        NoteAnswer(error: error);
        End();
        return false;
    }

    /// <summary>Forgets what a handler has done to the answer, and keeps what filters have added: what they add to all answers of a site belongs to this one, too.</summary>
    private void BeginAgain(ServerExchange exchange, bool isHead, bool isOld, bool isPersistent)
    {
        ServerAnswer answer = exchange.Answer;
        byte[]? fields = exchange.FilterFields > 0 ? answer.FirstFields(exchange.FilterFields) : null;
        answer.Release();
        answer.Begin(isHead, isOld, isPersistent);
        if (fields is null) DressAnswer(exchange.HasRequest);
        else answer.AddAgain(fields); // the site's are among them
    }

    /// <summary>What a handler met in a body that it read: counted, and to be thrown. The answer says the same when the handler lets it pass. Any thread.</summary>
    internal HttpProtocolException Mistake(int status, string text)
    {
        CountRefused(status);
        return new HttpProtocolException(status, $"{text}.");
    }

    private void CountRefused(int status) => Count(status switch
    {
        413 or 414 or 431 => HttpCount.TooLarge,
        _ => HttpCount.Refused,
    });

    // ------------------------------------------------------------------ for the answer

    /// <summary>An answer is about to be sent: from now on nobody is told to go on. Any thread.</summary>
    private void WithholdContinue()
    {
        if (_exchange is not { Head.Reader.ExpectsContinue: true } exchange || Interlocked.CompareExchange(ref exchange.Continuing, Withheld, Unsaid) != Saying) return;
        SpinWait wait = default;
        while (Volatile.Read(ref exchange.Continuing) == Saying) wait.SpinOnce();
    }

    /// <summary>The answer begins now: whether the connection can serve another request behind it. Any thread.</summary>
    /// <param name="isWhole">Nothing of it follows: what its handler has not read of the body it will not read.</param>
    internal bool BeginAnswer(bool isWhole)
    {
        WithholdContinue();
        if (_isLast || _hasEnded || _exchange is not { } exchange) return false;
        if (exchange.Body.IsDone) return true;
        // Who was not told to send its body may send it or not: nobody knows what comes next.
        if (exchange.Head.Reader.ExpectsContinue && Volatile.Read(ref exchange.Continuing) != Said) return false;
        // Who answers while the body comes reads on, as an echo does; what is left then is read away, or ends the connection.
        if (!isWhole && exchange.Stream is { WasRead: true }) return true;
        return exchange.Body.Left <= _options.SkipLimitBytes;
    }

    /// <summary>This thread is inside OnRequest.</summary>
    private bool IsInRequest => _requestThread == Environment.CurrentManagedThreadId;

    internal bool IsAskedToSwitch => IsInRequest && _exchange is { Head.Reader: { WantsUpgrade: true, Framing: HttpFraming.None, MinorVersion: 1 } };

    internal void SwitchTo(Session next)
    {
        if (!IsInRequest) throw new InvalidOperationException("A protocol is switched inside OnRequest, or in a handler on the loop, before it awaits anything.");
        HandOver(next, holdsSends: true);
    }

    internal void LeaveForNext()
    {
        NoteAnswer();
        // An awaited handler goes on for as long as it likes, and its end is waited for with the exchange.
        Exchange.IsLeft = Exchange.Found.Route is { IsAwaitable: true };
        if (Exchange.IsLeft) Exchange.EndHandles();
        else ReleaseExchange();
        _phase = Phase.Over;
    }
}
