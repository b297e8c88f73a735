using System.Diagnostics;
using Whimbrel.Http.Parsing;
using Awaiter = System.Runtime.CompilerServices.ConfiguredValueTaskAwaitable.ConfiguredValueTaskAwaiter;

namespace Whimbrel.Http;

/// <summary>
/// State of one request and its response, from the first byte of the request's head to the end of the response. An idle
/// session has none. So a loop with fast handlers has one for all its connections, and a connection with a waiting
/// handler costs little more than its session. Pool threads share a list, because the thread that takes an exchange
/// seldom returns it.
/// </summary>
/// <remarks>
/// The session owns it. Users have handles (<see cref="HttpRequest"/>, <see cref="HttpResponse"/>): this object and its
/// generation. The end of an exchange begins the next generation, so that older handles throw.
/// <c>ServerExchange.Handles.cs</c> has the gate between handles and recycling. An exchange with a running member of a
/// handle at its end is left to the garbage collector.
/// </remarks>
internal sealed partial class ServerExchange
{
    // Number of unused exchanges kept per loop, and shared by the pool: less than 3 MB. Above it, each is allocated.
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
    internal byte[]? Kept; // buffered body of a request
    internal byte[]? Trailers;
    internal ReadOnlyMemory<byte>? Whole; // stream that was read into memory
    internal int KeptBytes;
    internal bool IsKeptWhole; // Kept does not change any more, so handles may read it
    internal bool HasRequest; // the head was read, and broke no rule
    internal int Continuing;
    internal bool IsPreflight;
    internal bool IsLeft; // a handler may still use it after the end of its session: left to the garbage collector
    internal long HeadSinceMs;
    internal long BodySinceMs;
    internal long BodyWaitedMs;
    internal long Skipped;

    // ------------------------------------------------------------------ the answer

    internal readonly ServerAnswer Answer;
    internal AnswerPieces Pieces;
    internal Awaiter Awaited; // the handler, then the end of its response
    internal ExchangeWait Waits; // reason of the wait, while Awaited is set
    internal int NextFilter; // after the awaited one
    internal int FilterFields; // bytes of the response's fields added by the site and the filters
    internal Exception? HandlerError;
    internal Exception? Failure; // exception passed to the error hook
    internal bool IsBroken; // a part of the response was sent before

    // ------------------------------------------------------------------ the meter

    internal long TimedFrom; // start of the request, by HttpMetrics.Now; 0 if it is not recorded, or was
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

    /// <summary>Session of the request.</summary>
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
        exchange.Found = default; // a rejected request has none
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

/// <summary>Task that the exchange waits for.</summary>
internal enum ExchangeWait : byte
{
    /// <summary>The handler, then the end of its response.</summary>
    Handler,

    /// <summary>A filter.</summary>
    Filter,

    /// <summary>The error hook.</summary>
    ErrorHook,
}
