using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>
/// A part of what is received, read by others as a stream while the session keeps its connection: the body of a request, a message.
/// The session goes on getting <see cref="OnData"/>, finds out which bytes are the body's, and offers them; what the reader does not want
/// yet it leaves unread, as always, and is held then until the reader wants more.
/// </summary>
public abstract partial class Session : IReceiveBuffer
{
    // What a callback answers has room behind what may be pending when it is called: a queue's limit is four times as much.
    private const int MostAtATime = StrandBlock.MostToReceive;

    private Intake? _intake;

    /// <summary>
    /// Begins a body: bytes of the peer that somebody else reads as a <see cref="Stream"/>, while this session keeps the connection. From
    /// now on give the bytes of it to <see cref="DeliverBody"/>, and say <see cref="EndBody"/> behind the last one. One at a time.
    /// </summary>
    /// <remarks>
    /// A reader that is slow holds the session: nothing is delivered, and the peer has to wait. A reader that disposes the
    /// stream before its end wants no more: then <see cref="DeliverBody"/> takes what it is offered and throws it away, up to the limit, and the connection
    /// can go on being used. When the session ends first, reads throw with its reason. The session's thread only.
    /// </remarks>
    /// <param name="skipLimitBytes">Bytes thrown away for a reader that wants no more; with one more the session closes. 0 closes at the first. Default 256 KiB.</param>
    /// <exception cref="InvalidOperationException">There is a body already, or the session is ending.</exception>
    protected BodyStream StartBody(long skipLimitBytes = 256 * 1024)
    {
        if (skipLimitBytes < 0) Throw.OutOfRange(nameof(skipLimitBytes), skipLimitBytes, "0 or more");
        CheckIntake(nameof(StartBody));
        BodyStream body = new(this, skipLimitBytes);
        _intake = body.Intake;
        return body;
    }

    /// <summary>
    /// Offers the next bytes of the body. They go into the memory of the read that waits; without one nothing is taken. Leave unread what was
    /// not taken: it comes again when the reader wants more. The session's thread only.
    /// </summary>
    /// <param name="data">Bytes of the body alone, without what the protocol puts around them. Several calls in one callback may fill one read.</param>
    /// <returns>How many were taken, from the start.</returns>
    /// <exception cref="InvalidOperationException">There is no body.</exception>
    protected int DeliverBody(ReadOnlySpan<byte> data) => Body(nameof(DeliverBody)).Offer(data);

    /// <summary>The body is over: its reader comes to the end, or, with an exception, gets that. The session's thread only.</summary>
    /// <param name="failure">Why there is no more, when it is not the end: what the reader's next read throws. An <see cref="IOException"/> is what readers of streams expect.</param>
    /// <exception cref="InvalidOperationException">There is no body.</exception>
    protected void EndBody(Exception? failure = null)
    {
        BodyStream body = Body(nameof(EndBody));
        // It was held for a reader that does not come any more.
        if (body.HasRefused) DeliverAgain();
        _intake = null;
        body.End(failure);
    }

    private BodyStream Body(string member)
    {
        if (_intake is not BodyStream.Feed feed)
        {
            Throw.State($"{member} wants a body that was begun with StartBody and has not ended.");
            return null;
        }

        return feed.Body;
    }

    /// <summary>On the session's thread, and it has none yet.</summary>
    private void CheckIntake(string member)
    {
        if (RunningStrand is null)
        {
            if (_connection is not { } connection) throw Throw.NoConnection();
            StrandHere(connection, member);
        }

        if (_isEnding) Throw.State("The session is ending, or has ended: nothing more is received.");
        if (_intake is not null) Throw.State("The session has a body or a pipe that has not ended.");
    }

    /// <summary>A hand-over that is watched: <paramref name="until"/> hears of the end, also of the one that is not the hand-over's.</summary>
    internal void HandOverTo(Session next, Intake until)
    {
        CheckIntake(nameof(HandOver));
        HandOver(next);
        _intake = until;
    }

    /// <summary>It has the bytes of the peer where they lie, and gives none of them to others.</summary>
    internal virtual bool TakesLargeBlocks => _intake is null && _receiving is not AsyncReceive;

    /// <summary>
    /// Memory of the session's own for what comes much at a time. Where the engine can, it receives 16 KiB and more into this array, and <see cref="OnReceived"/> gets a span of it instead of one of the
    /// engine's memory: a session that keeps its bytes need not copy them. <c>data.Overlaps(array)</c> tells. Null, the default: the engine's memory. Session's thread, or before the session is used.
    /// </summary>
    /// <exception cref="InvalidOperationException">It was set elsewhere.</exception>
    /// <remarks>
    /// A wish: engines of Linux follow it without TLS, once several receives were large, while nothing is unread and, with callbacks on the pool, none runs; the bytes and their order are the same everywhere. An array of less
    /// than 16 KiB is not used, and of a longer one than 256 KiB the beginning: so much comes at a time at most. 32 to 128 KiB are good. It is the session's: inside <see cref="OnReceived"/> another one may be set, which is used from the next
    /// receive on; in one that stays set the next receive writes, on the pool also while another callback runs. A session that takes over the connection sets its own;
    /// one that overrides <see cref="OnReceivedAsync"/> gets copies, and has none.
    /// </remarks>
    protected byte[]? ReceiveBuffer
    {
        get => _receiving as byte[];
        set
        {
            if (_connection is not null && !IsOnSessionThread) Throw.State("ReceiveBuffer is set on the session's thread, or before the session is used.");
            if (_receiving is not AsyncReceive) _receiving = value;
        }
    }

    /// <summary>The same for a strand, when nobody looks at it.</summary>
    internal byte[]? OwnMemory => ReceiveBuffer;

    /// <summary>It keeps what it receives, and gives the engine memory of its own for what comes much at a time: then nothing is copied.</summary>
    internal virtual bool LendsRoom => ReceiveBuffer is { Length: >= PipeSegments.BulkBytes };

    /// <summary>Memory for the next receive, whose bytes it is offered where they lie; it keeps those that it wants to. Then, or instead, comes <see cref="DropRoom"/>. Its loop.</summary>
    internal virtual Span<byte> LendRoom() => ReceiveBuffer is { } buffer ? buffer.AsSpan(0, Math.Min(buffer.Length, MostAtATime)) : default;

    /// <summary>The engine writes there no more.</summary>
    internal virtual void DropRoom()
    {
    }

    Span<byte> IReceiveBuffer.Get() => LendRoom();

    void IReceiveBuffer.Done(Connection connection, Span<byte> received)
    {
        if (!received.IsEmpty) connection.CompleteReceive(received);
        DropRoom();
    }

    /// <summary>All that it receives goes there.</summary>
    internal Pipe? Piping => _intake as Pipe;

    internal int CallUnread(ReadOnlySpan<byte> unread)
    {
        int taken = _intake is { } intake ? intake.Take(this, unread) : OnData(unread);
        // Not the one of above: the callback may have ended one body and begun the next.
        _intake?.Offered(this, unread.Length - taken);
        return taken;
    }

    internal int CallOnData(ReadOnlySpan<byte> unread) => OnData(unread);

    private void EndIntake(CloseReason reason)
    {
        if (_intake is not { } intake) return;
        _intake = null;
        intake.End(reason);
    }

    /// <summary>Nothing is delivered until <see cref="DeliverAgain"/>. Inside a callback.</summary>
    internal void HoldForReader()
    {
        if (RunningStrand is { } strand) strand.HoldForReader();
        else if (_connection is { } connection && connection.Generation == _generation) connection.HoldForReader();
    }

    /// <summary>
    /// What is unread comes again (<see cref="OnData"/>), though nothing new has come; in a callback that gets bytes, what that one leaves. For a protocol that
    /// stopped for a reason of its own, as an answer that somebody else gives. Not inside the call, with nothing unread not at all, and while the session is paused
    /// or held not before that ends; what <see cref="SetMinimumBytes"/> asked for stays asked. Any thread. After the end nothing happens.
    /// </summary>
    protected internal void DeliverAgain()
    {
        if (RunningStrand is { } strand)
        {
            _intake?.OffersAgain();
            strand.DeliverAgain();
        }
        else if (_connection is not { } connection)
        {
            // It has ended, or was handed over.
        }
        else if (connection.Strand is not null || !connection.Loop.IsCurrent)
        {
            PostCall(s_offerAgain, this);
        }
        else if (connection.Generation == _generation)
        {
            _intake?.OffersAgain();
            connection.DeliverAgain();
        }
    }

    private static readonly Action<object?> s_offerAgain = static session => ((Session)session!).DeliverAgain();
}
