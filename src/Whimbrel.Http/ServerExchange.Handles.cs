namespace Whimbrel.Http;

// Gate between handles of users and the recycling of an exchange. One word has the generation, whether a member of the
// response is running, and the number of running members of the request. So one atomic step compares the generation and
// prevents recycling until the member has ended. A handle of an older generation never enters.
internal sealed partial class ServerExchange
{
    private const int GenerationShift = 20;
    private const long OneGeneration = 1L << GenerationShift;
    private const long Inside = OneGeneration - 1; // readers, and the writer
    private const long Writer = 1L << 16; // up to 65,535 readers
    private const int ShortSpins = 20;
    private const int LongSpins = 200; // a member that does not wait ends within microseconds, if its thread has a CPU

    private long _word = OneGeneration; // so that default(HttpRequest) never matches
    private int _thread;

    /// <summary>Handle of the request, valid for this generation. For the session, which ends it.</summary>
    internal HttpRequest Request => new(this, Generation);

    /// <summary>Handle of the response, valid for this generation. For the session, which ends it.</summary>
    internal HttpResponse Response => new(this, Generation);

    private long Generation => Volatile.Read(ref _word) >> GenerationShift;

    /// <summary>Marks the session's thread as inside a callback. Until <see cref="LeaveCallback"/> only this thread can
    /// end the exchange, so its reads need no atomic step.</summary>
    internal void EnterCallback() => _thread = Environment.CurrentManagedThreadId;

    internal void LeaveCallback() => _thread = 0;

    /// <summary>Enters a member of a request.</summary>
    /// <returns>Whether <see cref="LeaveReader"/> must be called.</returns>
    /// <exception cref="InvalidOperationException">The generation has ended.</exception>
    internal bool EnterReader(long generation)
    {
        if (_thread == Environment.CurrentManagedThreadId && Generation == generation) return false;
        long word = Volatile.Read(ref _word);
        while (true)
        {
            if (word >> GenerationShift != generation) throw Ended();
            long seen = Interlocked.CompareExchange(ref _word, word + 1, word);
            if (seen == word) return true;
            word = seen;
        }
    }

    internal void LeaveReader() => Interlocked.Decrement(ref _word);

    /// <summary>Throws unless the generation is the current one. For a value that was read atomically before: it then
    /// belongs to that generation.</summary>
    internal void Check(long generation)
    {
        if (Generation != generation) throw Ended();
    }

    /// <summary>Enters a member of a response. One at a time, also between threads.</summary>
    /// <exception cref="InvalidOperationException">The generation has ended, or another member is running.</exception>
    internal void EnterWriter(long generation)
    {
        long word = Volatile.Read(ref _word);
        while (true)
        {
            if (word >> GenerationShift != generation) throw Ended();
            if ((word & Writer) != 0)
                throw new InvalidOperationException("Another call is using this response: a write was not awaited, "
                    + "another thread is answering, or its handler has ended and the response is being completed. "
                    + "Await each write, and use a response from one thread at a time.");
            long seen = Interlocked.CompareExchange(ref _word, word | Writer, word);
            if (seen == word) return;
            word = seen;
        }
    }

    /// <summary>Enters for the session, which completes or replaces the response instead of the handler. Waits for a
    /// member that is about to return.</summary>
    /// <returns>False if a write or an end that was not awaited is pending.</returns>
    internal bool TryEnterWriter()
    {
        SpinWait wait = default;
        while (true)
        {
            long word = Volatile.Read(ref _word);
            if ((word & Writer) == 0)
            {
                if (Interlocked.CompareExchange(ref _word, word | Writer, word) == word) return true;
                continue;
            }

            if (wait.Count > (Answer.HasBegun ? ShortSpins : LongSpins)) return false;
            wait.SpinOnce();
        }
    }

    /// <summary>Leaves a member. If it has completed the response, the session continues. The caller must not use the
    /// exchange afterwards.</summary>
    internal void LeaveWriter(long generation)
    {
        HttpSession session = _session!;
        bool isCompleted = Answer.TakeCompletion();
        long word = Volatile.Read(ref _word);
        while (true)
        {
            // the exchange has ended meanwhile, and is left to the garbage collector
            if (word >> GenerationShift != generation) Answer.ReleaseEncoder();
            long seen = Interlocked.CompareExchange(ref _word, word & ~Writer, word);
            if (seen == word) break;
            word = seen;
        }

        if (isCompleted) session.AnswerDone();
    }

    /// <summary>Leaves for the session, which ends generations itself.</summary>
    internal void LeaveWriter() => LeaveWriter(Generation);

    /// <summary>Ends the response after its handler has ended.</summary>
    internal ValueTask EndAnswerAsync()
    {
        if (Answer is { IsDone: true, IsCompleting: false }) return default;
        if (TryEnterWriter()) return Answer.EndAsync(Generation);
        Session.Abort();
        throw new InvalidOperationException("The handler has ended while a write to its response was pending: await "
            + "each write. The connection was aborted.");
    }

    /// <summary>Releases the encoder after the handler has ended. If a member is still running, it does so at its
    /// end.</summary>
    internal void ReleaseEncoder()
    {
        if (Pieces.Encoder is null || !TryEnterWriter()) return;
        Answer.ReleaseEncoder();
        LeaveWriter();
    }

    /// <summary>Ends the generation: its handles throw from here on. The session's thread.</summary>
    /// <returns>Whether no member of a handle is running, so that the exchange can be reused.</returns>
    private bool Expire()
    {
        _thread = 0;
        return (Interlocked.Add(ref _word, OneGeneration) & Inside) == 0;
    }

    /// <summary>Ends the handles of an exchange that the session still needs, or leaves to the garbage
    /// collector.</summary>
    internal void EndHandles()
    {
        Expire();
        Stream?.End();
    }

    /// <summary>Ends the exchange, and returns it to the pool unless a member of a handle is running.</summary>
    internal void End()
    {
        bool isFree = Expire();
        Stream?.End();
        if (isFree) Return(this);
    }

    internal static InvalidOperationException Ended() => new(
        "The exchange of this HttpRequest or HttpResponse has ended: the request has its answer, and its connection "
        + "may serve another request. Nothing was read or sent. " +
        "Use them before the handler returns, or before the answer is complete. A handler that answers later is an "
        + "awaited one: async (request, response, stop) => ...");
}
