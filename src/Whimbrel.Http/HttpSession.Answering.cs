using System.Diagnostics;
using Whimbrel.Http.Parsing;
using Awaiter = System.Runtime.CompilerServices.ConfiguredValueTaskAwaitable.ConfiguredValueTaskAwaiter;

namespace Whimbrel.Http;

// From requests to responses. Handlers run here; work completed on other threads returns by Post.
public partial class HttpSession
{
    private const string ErrorHookAdvice = "HttpServer.OnError takes a hook that gets request and exception.";
    private const string ResetOutcome = "A part of the answer had been sent, so the connection is reset.";

    private volatile bool _isHandlerRunning;
    private bool _isDoneHere;
    private int _requestThread;

    // ------------------------------------------------------------------ one request

    /// <summary>Serves one request. Returns true if more bytes can be read.</summary>
    private bool Dispatch()
    {
        _phase = Phase.Answer;
        Exchange.IsKeptWhole = true;
        Run(Exchange.IsPreflight ? Stage.Preflight : Stage.Request);
        if (_phase != Phase.Answer) return false;
        ServerExchange exchange = Exchange;
        if (_isHandlerRunning) return exchange.Stream is not null;
        // A large response is sent in pieces, as the peer reads.
        if (exchange.Answer.IsEnding) FinishLater(default);
        // A response completed on another thread is not queued yet: its Advance continues with the next request.
        return !_isHandlerRunning && _isDoneHere && exchange.Answer.IsDone
            ? FinishExchange()
            : exchange.Stream is not null;
    }

    /// <summary>Step of the session for the current request.</summary>
    private enum Stage : byte
    {
        /// <summary>CORS preflight.</summary>
        Preflight,

        /// <summary>The request is available.</summary>
        Request,

        /// <summary>An awaited filter has let the request pass.</summary>
        AfterFilter,

        /// <summary>The handler or a filter has thrown.</summary>
        Failed,

        /// <summary>The awaited error hook gave no response.</summary>
        Unhandled,
    }

    /// <summary>Runs overrides and handlers. If one of them completes the response here, the caller finishes the
    /// exchange. On the session's thread.</summary>
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

    /// <summary>Runs a posted step, and then continues with the next request.</summary>
    private void RunPosted(Stage stage, Exception? error = null)
    {
        Run(stage, error);
        // A response completed on another thread posts its own Advance.
        if (_phase == Phase.Answer && !_isHandlerRunning && (_isDoneHere || Exchange.Answer.IsEnding)) Advance();
    }

    private bool FinishExchange()
    {
        NoteAnswer();
        // The server may have begun to stop after the head of the response was sent.
        if (Exchange.Answer.Closes || _isLast)
        {
            End(_saidAll && UnreadCount == 0);
            return false;
        }

        if (Exchange.Body.IsDone)
        {
            NextRequest();
            return true;
        }

        _phase = Phase.Skip;
        Exchange.EndHandles();
        Exchange.Skipped = 0;
        Exchange.BodySinceMs = Loop.TimeMs;
        Exchange.BodyWaitedMs = 0;
        return true;
    }

    /// <summary>Called when the response, or a handler, is complete. Any thread, also inside the handler.</summary>
    internal void AnswerDone()
    {
        if (IsInRequest) _isDoneHere = true; // the running callback continues after it returns
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

        // The thread that completes the response calls again when its bytes are queued.
        if (!answer.IsDone || answer.IsCompleting) return;
        if (!FinishExchange()) return;
        if (_peerFinished && UnreadCount == 0) End();
        else if (UnreadCount > 0 || _isPaused) Reoffer();
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

    /// <summary>Runs filters, then the handler, unless a filter responds or must be awaited.</summary>
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
            // A handler that switched the protocol has ended the exchange.
            if (_phase == Phase.Answer && !exchange.Answer.IsDone) FinishLater(default);
            return;
        }

        FinishLater(route.Handler.Awaitable!(request, response, Stop));
    }

    /// <summary>Waits for the handler, then for the end of its response. If both are complete, finishes at
    /// once.</summary>
    /// <remarks>
    /// An awaited operation has one owner: this thread until the registration, then the thread that completes it, until
    /// <see cref="HandlerDone"/> runs on the session's thread. The steps use two delegates kept by the exchange. An
    /// async method would need one state machine per wait, and the runtime caches only one per thread.
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

    // While the mark is set, AnswerDone leaves the continuation to HandlerDone. So the mark is set only when
    // HandlerDone will certainly run.
    private void Await(Awaiter awaited, Action continuation)
    {
        Exchange.Awaited = awaited;
        _isHandlerRunning = true;
        awaited.UnsafeOnCompleted(continuation);
    }

    private static Awaiter AwaiterOf(ValueTask task) => task.ConfigureAwait(false).GetAwaiter();

    /// <summary>Called when the handler has ended; sends the rest of its response on the same thread. Any
    /// thread.</summary>
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
            // A filter lets the request pass, or the error hook gave no response: the session's thread continues.
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
        exchange.ReleaseEncoder(); // also if the connection has ended
        exchange.HandlerError = error;
        bool isPosted;
        using (BatchWakeUps()) isPosted = Post(static s => ((HttpSession)s!).HandlerDone(), this);
        if (!isPosted) exchange.EndHandles();
    }

    private void HandlerDone()
    {
        _isHandlerRunning = false;
        Interlocked.MemoryBarrier(); // a thread that completes the response sets its state, then reads the flag
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
            // The error hook itself has thrown, so it gives no response.
            ReportException(exception, "The error hook of an HttpServer", outcome: OutcomeOf(exchange));
            Fail(first);
            return;
        }

        bool isPeers = exception is HttpProtocolException
            || (exception is OperationCanceledException && _stop is { IsCancellationRequested: true })
            || (exception is IOException && !IsConnected);
        if (isPeers)
        {
            if (exception is not HttpProtocolException mistake || exchange is null || !TryTakeAnswer(exchange))
                AbortAnswer(exception, isPeers);
            else Answer(mistake.Status, mistake.Message.TrimEnd('.'));
            return;
        }

        Count(HttpCount.HandlerErrors);
        if (exchange is not null && _phase == Phase.Answer && _routes?.ErrorHook is { } hook)
            RunErrorHook(exchange, hook, exception);
        else Fail(exception);
    }

    private void RunErrorHook(ServerExchange exchange, Func<HttpRequest, HttpResponse, Exception, ValueTask> hook,
        Exception exception)
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

    /// <summary>
    /// Handles an exception without a response: logs a diagnostic event, and sends 500 or, after a partial response,
    /// aborts.
    /// </summary>
    private void Fail(Exception exception)
    {
        string outcome = OutcomeOf(_exchange);
        if (_exchange?.Found.Route is { } route)
            ReportException(exception, $"The handler of {route.Text}",
                _routes?.ErrorHook is null ? ErrorHookAdvice : "", outcome);
        else ReportException(exception, nameof(OnRequest), outcome: outcome);
        if (_exchange is not { } exchange || !TryTakeAnswer(exchange)) AbortAnswer(exception, isPeers: false);
        else Answer(500, "The handler failed", ErrorOf(exception, isPeers: false));
    }

    /// <summary>
    /// Logs a diagnostic event when the stop of the server reset a connection with a running handler. The handler may
    /// await the stop.
    /// </summary>
    private void NoteStopOverdue(ServerExchange exchange)
    {
        if (exchange.Found.Route is not { } route || Server is not { } server || !_routes!.TryNoteStop(Loop.TimeMs))
            return;
        server.Report(new DiagnosticEvent(
            DiagnosticEventKind.StopOverdue,
            $"The handler of {route.Text} had not ended at the deadline of the server's stop: its connection was "
            + $"reset, without a whole answer. A handler that awaits StopAsync or DisposeAsync of its own server waits "
            + $"for itself: begin the stop without awaiting it (_ = server.StopAsync()), and answer.",
            "stop-overdue.md"));
    }

    /// <summary>Result for the client after an exception of its handler, for the diagnostic event.</summary>
    private string OutcomeOf(ServerExchange? exchange)
    {
        if (exchange is null || !exchange.TryEnterWriter()) return ResetOutcome;
        try
        {
            if (!exchange.Answer.HasBegun) return "The client gets 500.";
            return exchange.Answer.IsWhole && _phase == Phase.Answer
                ? "The client gets the answer that was complete before."
                : ResetOutcome;
        }
        finally
        {
            exchange.LeaveWriter();
        }
    }

    /// <summary>Returns true if the response has not begun. After that no handle of its handler can begin it.</summary>
    private static bool TryTakeAnswer(ServerExchange exchange)
    {
        if (!exchange.TryEnterWriter()) return false;
        bool isOpen = !exchange.Answer.HasBegun;
        if (isOpen) exchange.EndHandles();
        exchange.LeaveWriter();
        return isOpen;
    }

    /// <summary>Aborts the connection after a partial response. A complete response is delivered.</summary>
    private void AbortAnswer(Exception exception, bool isPeers)
    {
        if (_exchange is { } exchange)
        {
            bool isEntered = exchange.TryEnterWriter(),
                isWhole = isEntered && exchange.Answer.IsWhole && _phase == Phase.Answer;
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

    /// <summary>Error type for metrics. After a disconnect of the peer a handler may throw any exception.</summary>
    private string? ErrorOf(Exception exception, bool isPeers) =>
        isPeers && _peerFinished ? nameof(CloseCause.PeerClosed) : exception.GetType().FullName;

    private bool Refuse(HttpRule rule) => Refuse(rule, HttpRules.TextOf(rule));

    private bool Refuse(HttpRule rule, string text)
    {
        int status = HttpRules.StatusOf(rule);
        ReportProtocolError(new HttpProtocolException(status, $"{text}."));
        return Refuse(status, text);
    }

    /// <summary>Sends one response with the reason, and ends the connection. Returns false: nothing is read any
    /// more.</summary>
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

    /// <summary>Discards the handler's changes of the response, and keeps the fields added by filters, because they
    /// belong to all responses of a site.</summary>
    private void BeginAgain(ServerExchange exchange, bool isHead, bool isOld, bool isPersistent)
    {
        ServerAnswer answer = exchange.Answer;
        byte[]? fields = exchange.FilterFields > 0 ? answer.FirstFields(exchange.FilterFields) : null;
        answer.Release();
        answer.Begin(isHead, isOld, isPersistent);
        if (fields is null) DressAnswer(exchange.HasRequest);
        else answer.AddAgain(fields); // includes the fields of the site
    }

    /// <summary>Counts an error found in a body that the handler reads, and returns the exception to throw. If the
    /// handler does not catch it, the response has its status. Any thread.</summary>
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

    /// <summary>Called before a response is sent: from now on no 100 (Continue) is sent. Any thread.</summary>
    private void WithholdContinue()
    {
        if (_exchange is not { Head.Reader.ExpectsContinue: true } exchange
            || Interlocked.CompareExchange(ref exchange.Continuing, Withheld, Unsaid) != Saying)
            return;
        SpinWait wait = default;
        while (Volatile.Read(ref exchange.Continuing) == Saying) wait.SpinOnce();
    }

    /// <summary>Begins the response. Returns whether the connection can serve another request after it. Any
    /// thread.</summary>
    /// <param name="isWhole">Whether the response is complete, so that its handler does not read more of the
    /// body.</param>
    internal bool BeginAnswer(bool isWhole)
    {
        WithholdContinue();
        if (_isLast || _hasEnded || _exchange is not { } exchange) return false;
        if (exchange.Body.IsDone) return true;
        // A client that did not get 100 (Continue) may send its body or not, so the next bytes are ambiguous.
        if (exchange.Head.Reader.ExpectsContinue && Volatile.Read(ref exchange.Continuing) != Said) return false;
        // A handler that responds while it reads the body, as an echo does, continues to read. The rest is then
        // skipped, or ends the connection.
        if (!isWhole && exchange.Stream is { WasRead: true }) return true;
        return exchange.Body.Left <= _options.SkipLimitBytes;
    }

    /// <summary>Whether this thread is inside OnRequest.</summary>
    private bool IsInRequest => _requestThread == Environment.CurrentManagedThreadId;

    internal bool IsAskedToSwitch =>
        IsInRequest && _exchange is { Head.Reader: { WantsUpgrade: true, Framing: HttpFraming.None, MinorVersion: 1 } };

    internal void SwitchTo(Session next)
    {
        if (!IsInRequest)
            throw new InvalidOperationException(
                "A protocol is switched inside OnRequest, or in a handler on the loop, before it awaits anything.");
        HandOver(next, holdsSends: true);
    }

    internal void LeaveForNext()
    {
        NoteAnswer();
        // An awaited handler may run longer; the exchange is kept until it ends.
        Exchange.IsLeft = Exchange.Found.Route is { IsAwaitable: true };
        if (Exchange.IsLeft) Exchange.EndHandles();
        else ReleaseExchange();
        _phase = Phase.Over;
    }
}
