using System.ComponentModel;
using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>
/// Body streams: other code reads a part of the received data as a stream, such as a request body, while the session
/// keeps its connection. The session still gets <see cref="OnData"/>, determines which bytes belong to the body, and
/// passes them to <see cref="DeliverBody"/>. Bytes that the reader does not want yet stay unconsumed, and the session
/// is held until the reader wants more.
/// </summary>
public abstract partial class Session : IReceiveBuffer
{
    // The send queue's limit is four times this, so the answers to one callback's data fit in addition to the pending
    // bytes.
    private const int MostAtATime = StrandBlock.MostToReceive;

    private Intake? _intake;

    /// <summary>
    /// Starts a body: bytes of the peer that other code reads as a <see cref="Stream"/>, while this session keeps the
    /// connection. Pass its bytes to <see cref="DeliverBody"/>, and call <see cref="EndBody"/> after the last one. One
    /// at a time.
    /// </summary>
    /// <remarks>
    /// A slow reader holds the session: nothing is delivered, and the peer has to wait. If the reader disposes the
    /// stream before its end, <see cref="DeliverBody"/> consumes and discards the rest, up to the limit, and the
    /// connection stays usable. If the session ends first, reads throw with its reason. The session's thread only.
    /// </remarks>
    /// <param name="skipLimitBytes">Number of bytes discarded for a disposed reader; with one more byte the session
    /// closes. 0 closes at the first byte. Default 256 KiB.</param>
    /// <exception cref="InvalidOperationException">The session has a body already, or is ending.</exception>
    [EditorBrowsable(EditorBrowsableState.Advanced)]
    protected BodyStream StartBody(long skipLimitBytes = 256 * 1024)
    {
        if (skipLimitBytes < 0) Throw.OutOfRange(nameof(skipLimitBytes), skipLimitBytes, "0 or more");
        CheckIntake(nameof(StartBody));
        BodyStream body = new(this, skipLimitBytes);
        _intake = body.Intake;
        return body;
    }

    /// <summary>
    /// Copies the next bytes of the body into the memory of the pending read. Without a pending read nothing is
    /// consumed. Leave the rest unconsumed: it is passed again when the reader wants more. The session's thread only.
    /// </summary>
    /// <param name="data">Bytes of the body, without the framing of the protocol. Several calls in one callback may
    /// fill one read.</param>
    /// <returns>Number of bytes consumed, from the start.</returns>
    /// <exception cref="InvalidOperationException">The session has no body.</exception>
    [EditorBrowsable(EditorBrowsableState.Advanced)]
    protected int DeliverBody(ReadOnlySpan<byte> data) => Body(nameof(DeliverBody)).Offer(data);

    /// <summary>
    /// Ends the body: its reader reaches the end or, with an exception, gets that exception. The session's thread only.
    /// </summary>
    /// <param name="failure">Exception for the reader's next read if the body is incomplete; readers of streams expect
    /// an <see cref="IOException"/>. Null: the body is complete.</param>
    /// <exception cref="InvalidOperationException">The session has no body.</exception>
    [EditorBrowsable(EditorBrowsableState.Advanced)]
    protected void EndBody(Exception? failure = null)
    {
        BodyStream body = Body(nameof(EndBody));
        // The session was held for the reader, and no further read will release it.
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

    /// <summary>Throws unless this is the session's thread and neither a body nor a pipe is in progress.</summary>
    private void CheckIntake(string member)
    {
        if (RunningPool is null)
        {
            if (_connection is not { } connection) throw Throw.NoConnection();
            PoolHere(connection, member);
        }

        if (_isEnding) Throw.State("The session is ending, or has ended: nothing more is received.");
        if (_intake is not null) Throw.State("The session has a body or a pipe that has not ended.");
    }

    /// <summary>
    /// Hands over and calls <paramref name="until"/> at the end of this session, also if something other than the
    /// hand-over ends it.
    /// </summary>
    internal void HandOverTo(Session next, Intake until)
    {
        CheckIntake(nameof(HandOver));
        HandOver(next);
        _intake = until;
    }

    /// <summary>
    /// True if the session consumes received bytes in place, without passing them to a body, a pipe or an async
    /// callback.
    /// </summary>
    internal virtual bool TakesLargeBlocks => _intake is null && _receiving is not AsyncReceive;

    /// <summary>
    /// Buffer of the session for large receives. Where the engine supports it, it receives 16 KiB and more into this
    /// array, and <see cref="OnReceived"/> gets a span of it instead of the engine's memory. A session that keeps its
    /// data then need not copy it; <c>data.Overlaps(array)</c> shows whether the array was used. Default null: the
    /// engine's memory. Set it on the session's thread, or before the session is used.
    /// </summary>
    /// <exception cref="InvalidOperationException">Set on another thread after the session was used.</exception>
    /// <remarks>
    /// A hint: the engines for Linux follow it without TLS, after several large receives, while nothing is unread and
    /// no callback runs on the pool. The bytes and their order are the same everywhere. Arrays under 16 KiB are not
    /// used; of arrays over 256 KiB only the beginning is used. 32 to 128 KiB are good sizes. Inside
    /// <see cref="OnReceived"/> another array may be set, which is used from the next receive on. An array that stays
    /// set is overwritten by the next receive, on the pool also while another callback runs. A session that takes over
    /// the connection sets its own. A session that overrides <see cref="OnReceivedAsync"/> gets copies and does not use
    /// the array.
    /// </remarks>
    [EditorBrowsable(EditorBrowsableState.Advanced)]
    protected byte[]? ReceiveBuffer
    {
        get => _receiving as byte[];
        set
        {
            if (_connection is not null && !IsOnSessionThread)
                Throw.State("ReceiveBuffer is set on the session's thread, or before the session is used.");
            if (_receiving is not AsyncReceive) _receiving = value;
        }
    }

    /// <summary>Same as <see cref="ReceiveBuffer"/>, for the strand while no callback runs.</summary>
    internal byte[]? OwnMemory => ReceiveBuffer;

    /// <summary>True if the session provides its own memory for large receives, so that nothing is copied.</summary>
    internal virtual bool LendsRoom => ReceiveBuffer is { Length: >= PipeSegments.BulkBytes };

    /// <summary>
    /// Returns memory for the next receive. Its bytes are then offered in place, and <see cref="DropRoom"/> follows;
    /// without data only <see cref="DropRoom"/> is called. The session's loop.
    /// </summary>
    internal virtual Span<byte> LendRoom() =>
        ReceiveBuffer is { } buffer ? buffer.AsSpan(0, Math.Min(buffer.Length, MostAtATime)) : default;

    /// <summary>Called when the engine has stopped writing to the memory.</summary>
    internal virtual void DropRoom()
    {
    }

    Span<byte> IReceiveBuffer.Get() => LendRoom();

    void IReceiveBuffer.Done(Connection connection, Span<byte> received)
    {
        if (!received.IsEmpty) connection.CompleteReceive(received);
        DropRoom();
    }

    /// <summary>The pipe that receives all data of the session, or null.</summary>
    internal Pipe? Piping => _intake as Pipe;

    internal int CallOnData(ReadOnlySpan<byte> unread) => OnData(unread);

    private void EndIntake(CloseReason reason)
    {
        if (_intake is not { } intake) return;
        _intake = null;
        intake.End(reason);
    }

    /// <summary>Stops deliveries: for a reader until <see cref="DeliverAgain"/>. Inside a callback.</summary>
    internal void HoldFor(ReceiveGate reason)
    {
        if (RunningPool is { } pool) pool.Strand.Hold(reason);
        else if (_connection is { } connection && connection.Generation == _generation) connection.HoldFor(reason);
    }

    /// <summary>
    /// Passes unread bytes to <see cref="OnData"/> again although nothing new has arrived; in a callback that receives
    /// data, the bytes which that callback leaves. For a protocol that stopped for its own reason, such as an answer
    /// produced elsewhere. Never calls OnData inside this call, and not with nothing unread. While the session is
    /// paused or held it waits for the end of that; a pending <see cref="SetMinimumBytes"/> stays in effect. Any
    /// thread. No effect after the end.
    /// </summary>
    [EditorBrowsable(EditorBrowsableState.Advanced)]
    protected internal void DeliverAgain()
    {
        if (RunningPool is { } pool)
        {
            _intake?.OffersAgain();
            pool.Strand.Release(ReceiveGate.Reader, offersAnyway: true);
        }
        else if (_connection is not { } connection)
        {
            // The connection has ended or was handed over.
        }
        else if (connection.Pool is not null || !connection.Loop.IsCurrent)
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
