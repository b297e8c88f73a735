using System.Diagnostics;
using Whimbrel.Http.Parsing;
using Awaiter = System.Runtime.CompilerServices.ConfiguredValueTaskAwaitable.ConfiguredValueTaskAwaiter;

namespace Whimbrel.Http;

/// <summary>
/// The state of one request and its response, from the first byte of the request's head to the end of the response. Between two requests a session has none. So a loop that answers at once has one
/// for all its connections, and a connection whose handler waits costs little more than its session. Threads of the pool share theirs, because the thread that takes one there is seldom the thread that returns it.
/// </summary>
/// <remarks>
/// The session owns it. Users hold handles (<see cref="HttpRequest"/>, <see cref="HttpResponse"/>): this object and its generation at the time. The end of an exchange begins the next generation, so that
/// older handles throw. <c>ServerExchange.Handles.cs</c> has the gate between handles and recycling. An exchange that a member of a handle is still using at its end is left to the collector.
/// </remarks>
internal sealed partial class ServerExchange
{
    // So many requests of one loop, or of the pool, may wait for their handlers at once before exchanges are made anew for each: less than 3 MB, once they were needed.
    private const int MostKept = 1024;
    private const int MostShared = 1024;

    private static readonly Lock s_gate = new();
    private static readonly Stack<ServerExchange> s_free = new();

    [ThreadStatic]
    private static Stack<ServerExchange>? t_free;

    // ------------------------------------------------------------------ the request

    internal readonly HttpHead Head = new();
    internal HttpBodyReader Body;
    internal RouteTable.Found Found;
    internal RoutePlaces Places;
    internal HttpBody? Stream;
    internal byte[]? Kept; // the body of a request whose handler gets it whole
    internal byte[]? Trailers;
    internal ReadOnlyMemory<byte>? Whole; // a stream that was read into memory
    internal int KeptBytes;
    internal bool IsKeptWhole; // Kept does not change any more, so handles may read it
    internal bool HasRequest; // the head was read, and broke no rule
    internal int Continuing;
    internal bool IsPreflight;
    internal bool IsLeft; // a handler may still use it after the end of its session: it is the collector's
    internal long HeadSinceMs;
    internal long BodySinceMs;
    internal long BodyWaitedMs;
    internal long Skipped;

    // ------------------------------------------------------------------ the answer

    internal readonly ServerAnswer Answer;
    internal AnswerPieces Pieces;
    internal Awaiter Awaited; // the handler, then the end of its answer
    internal ExchangeWait Waits; // for what, while Awaited is there
    internal int NextFilter; // behind the one that is waited for
    internal int FilterFields; // bytes of the answer's fields that are the site's and the filters'
    internal Exception? HandlerError;
    internal Exception? Failure; // the error hook was told of it
    internal bool IsBroken; // a part of the answer had left before

    // ------------------------------------------------------------------ the meter

    internal long TimedFrom; // when the request began, by HttpMetrics.Now; 0 when it is not told of, or was
    internal bool IsCountedActive;
    internal Activity? Activity;

    internal readonly Action HandlerEnded;
    internal readonly Action AnswerEnded;
    private HttpSession? _session;

    private ServerExchange()
    {
        HandlerEnded = () => _session!.HandlerEnded(this);
        AnswerEnded = () => _session!.AnswerEnded(this);
        Answer = new ServerAnswer(this);
    }

    /// <summary>The session whose request this is.</summary>
    internal HttpSession Session => _session!;

    internal static ServerExchange Take(HttpSession session)
    {
        ServerExchange exchange = TakeFree() ?? new ServerExchange();
        exchange._session = session;
        return exchange;
    }

    private static ServerExchange? TakeFree()
    {
        if (Loop.Current is not null) return t_free is { Count: > 0 } free ? free.Pop() : null;
        lock (s_gate) return s_free.TryPop(out ServerExchange? exchange) ? exchange : null;
    }

    private static void Return(ServerExchange exchange)
    {
        exchange.ReleaseRequest();
        exchange.Answer.Release();
        exchange._session = null;
        exchange.Found = default; // a request that is refused has none
        exchange.TimedFrom = 0;
        exchange.Activity = null;
        exchange.HandlerError = exchange.Failure = null;
        exchange.Waits = ExchangeWait.Handler;
        exchange.IsBroken = false;
        exchange.FilterFields = 0;
        if (Loop.Current is not null)
        {
            Stack<ServerExchange> free = t_free ??= new Stack<ServerExchange>();
            if (free.Count < MostKept) free.Push(exchange);
            return;
        }

        lock (s_gate)
        {
            if (s_free.Count < MostShared) s_free.Push(exchange);
        }
    }
}

/// <summary>Whose task is waited for.</summary>
internal enum ExchangeWait : byte
{
    /// <summary>The handler's, then the end of its answer.</summary>
    Handler,

    /// <summary>A filter's.</summary>
    Filter,

    /// <summary>The error hook's.</summary>
    ErrorHook,
}
