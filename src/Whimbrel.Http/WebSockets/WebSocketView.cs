using System.Net.WebSockets;
using System.Runtime.CompilerServices;

namespace Whimbrel.Http.WebSockets;

/// <summary>
/// Session as .NET's abstract WebSocket class, with its states and errors. One send and one receive may be pending at
/// the same time; cancelling one aborts.
/// </summary>
internal sealed class WebSocketView(WebSocketSession session) : WebSocket
{
    private const int AtMost = 1024; // bytes dropped at once while waiting for the peer's close frame

    private readonly WebSocketInbox _inbox = session.Inbox;
    private readonly Lock _gate = new();
    // Also if the connection has ended meanwhile: earlier data can still be read.
    private WebSocketState _state = session.HasBegun ? WebSocketState.Open : WebSocketState.Closed;
    private bool _isDisposed;
    private bool _isAborted; // by this side: earlier data is dropped

    public override WebSocketCloseStatus? CloseStatus =>
        State >= WebSocketState.CloseReceived && _inbox.PeerStatus is { } status ? (WebSocketCloseStatus)status : null;

    public override string? CloseStatusDescription => CloseStatus is null ? null : _inbox.PeerReason;

    public override string? SubProtocol => session.SubProtocol;

    public override WebSocketState State
    {
        get
        {
            lock (_gate)
                return _state is WebSocketState.Open or WebSocketState.CloseSent && HasFailed
                    ? WebSocketState.Aborted
                    : _state;
        }
    }

    // An end of the connection without a close frame of the peer; earlier data can still be read.
    private bool HasFailed => !session.IsConnected && _inbox.PeerStatus is null;

    // ------------------------------------------------------------------ receiving

    public override async Task<WebSocketReceiveResult> ReceiveAsync(ArraySegment<byte> buffer,
        CancellationToken cancellationToken)
    {
        ValueWebSocketReceiveResult result = await ReceiveAsync(buffer.AsMemory(), cancellationToken)
            .ConfigureAwait(false);
        return result.MessageType == WebSocketMessageType.Close
            ? new WebSocketReceiveResult(0, WebSocketMessageType.Close, true, CloseStatus, CloseStatusDescription)
            : new WebSocketReceiveResult(result.Count, result.MessageType, result.EndOfMessage);
    }

    public override ValueTask<ValueWebSocketReceiveResult> ReceiveAsync(Memory<byte> buffer,
        CancellationToken cancellationToken)
    {
        Check(static state => state is WebSocketState.Open or WebSocketState.CloseSent or WebSocketState.Aborted);
        return ReceiveCoreAsync(buffer, cancellationToken);
    }

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    private async ValueTask<ValueWebSocketReceiveResult> ReceiveCoreAsync(Memory<byte> buffer,
        CancellationToken cancellationToken)
    {
        try
        {
            WebSocketReceived got = await _inbox.ReceiveAsync(buffer, cancellationToken).ConfigureAwait(false);
            if (!got.IsEnd)
                return new ValueWebSocketReceiveResult(got.Count,
                    got.IsText ? WebSocketMessageType.Text : WebSocketMessageType.Binary, got.IsLast);
            Move(WebSocketState.Open, WebSocketState.CloseReceived);
            Move(WebSocketState.CloseSent, WebSocketState.Closed);
            return new ValueWebSocketReceiveResult(0, WebSocketMessageType.Close, true);
        }
        catch (OperationCanceledException)
        {
            Abort();
            throw;
        }
        catch (IOException e)
        {
            Abort();
            throw new System.Net.WebSockets.WebSocketException(WebSocketError.ConnectionClosedPrematurely, e);
        }
    }

    // ------------------------------------------------------------------ sending

    public override Task SendAsync(ArraySegment<byte> buffer, WebSocketMessageType messageType, bool endOfMessage,
        CancellationToken cancellationToken) =>
        SendAsync(buffer.AsMemory(), messageType, endOfMessage, cancellationToken).AsTask();

    // The base class passes its flags to this method. Its compression flag has no effect: pieces are never compressed,
    // whole messages as agreed.
    public override ValueTask SendAsync(ReadOnlyMemory<byte> buffer, WebSocketMessageType messageType,
        bool endOfMessage, CancellationToken cancellationToken)
    {
        if (messageType is not (WebSocketMessageType.Text or WebSocketMessageType.Binary))
            throw new ArgumentException("A message is text or binary; CloseOutputAsync sends a close frame.",
                nameof(messageType));
        Check(static state => state is WebSocketState.Open or WebSocketState.CloseReceived);
        return SendCoreAsync(buffer, messageType == WebSocketMessageType.Text, endOfMessage, cancellationToken);
    }

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder))]
    private async ValueTask SendCoreAsync(ReadOnlyMemory<byte> buffer, bool isText, bool isLast,
        CancellationToken cancellationToken)
    {
        SendResult result;
        try
        {
            result = await session.SendPieceAsync(buffer, isText, isLast, cancellationToken).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            Abort();
            throw;
        }

        if (result == SendResult.Refused)
            throw new InvalidOperationException("There is already one outstanding send: one at a time.");
        if (result != SendResult.Queued)
            throw new System.Net.WebSockets.WebSocketException(WebSocketError.ConnectionClosedPrematurely);
    }

    // ------------------------------------------------------------------ ending

    public override async Task CloseOutputAsync(WebSocketCloseStatus closeStatus, string? statusDescription,
        CancellationToken cancellationToken)
    {
        Judge(closeStatus, statusDescription);
        Check(static state => state is WebSocketState.Open or WebSocketState.CloseReceived);
        ValueTask leaving = session.ShutdownSendAsync(StatusOf(closeStatus), statusDescription ?? "");
        Move(WebSocketState.Open, WebSocketState.CloseSent);
        bool isBoth = Move(WebSocketState.CloseReceived, WebSocketState.Closed);
        try
        {
            // Many callers abort or dispose after this call: a frame that was still queued would be lost.
            await leaving.AsTask().WaitAsync(cancellationToken).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            Abort();
            throw;
        }

        if (isBoth) await session.CloseAsync(cancellationToken).ConfigureAwait(false);
    }

    public override async Task CloseAsync(WebSocketCloseStatus closeStatus, string? statusDescription,
        CancellationToken cancellationToken)
    {
        Judge(closeStatus, statusDescription);
        Check(static state => state is WebSocketState.Open or WebSocketState.CloseReceived or WebSocketState.CloseSent);
        session.ShutdownSend(StatusOf(closeStatus), statusDescription ?? "");
        Move(WebSocketState.Open, WebSocketState.CloseSent);
        byte[] rest = new byte[AtMost];
        // Messages before the peer's close frame are dropped. A pending receive gets them, and the frame.
        while (State == WebSocketState.CloseSent)
        {
            try
            {
                await ReceiveCoreAsync(rest, cancellationToken).ConfigureAwait(false);
            }
            catch (InvalidOperationException)
            {
                break;
            }
        }

        await session.CloseAsync(StatusOf(closeStatus), statusDescription ?? "", cancellationToken)
            .ConfigureAwait(false);
        Move(WebSocketState.CloseReceived, WebSocketState.Closed);
        if (_inbox.PeerStatus is not null) Move(WebSocketState.CloseSent, WebSocketState.Closed);
    }

    public override void Abort()
    {
        Move(WebSocketState.Open, WebSocketState.Aborted);
        Move(WebSocketState.CloseSent, WebSocketState.Aborted);
        Move(WebSocketState.CloseReceived, WebSocketState.Aborted);
        Volatile.Write(ref _isAborted, true);
        session.Abort();
    }

    public override void Dispose()
    {
        lock (_gate)
        {
            if (_isDisposed) return;
            _isDisposed = true;
            if (_state == WebSocketState.Closed) return;
            if (_state < WebSocketState.Aborted) _state = WebSocketState.Closed;
        }

        session.Abort();
    }

    // ------------------------------------------------------------------ states

    private bool Move(WebSocketState from, WebSocketState to)
    {
        lock (_gate)
        {
            if (_state != from) return false;
            _state = to;
            return true;
        }
    }

    private void Check(Func<WebSocketState, bool> isValid)
    {
        ObjectDisposedException.ThrowIf(Volatile.Read(ref _isDisposed), this);
        WebSocketState state = State;
        if (!isValid(state) || Volatile.Read(ref _isAborted))
            throw new System.Net.WebSockets.WebSocketException(WebSocketError.InvalidState,
                $"The WebSocket is in an invalid state ('{state}') for this operation.");
    }

    private static WebSocketStatus StatusOf(WebSocketCloseStatus status) => (WebSocketStatus)status;

    private static void Judge(WebSocketCloseStatus status, string? reason)
    {
        if (status == WebSocketCloseStatus.Empty && !string.IsNullOrEmpty(reason))
            throw new ArgumentException("Without a status there is no reason.", nameof(reason));
        try
        {
            WebSocketSession.Check(StatusOf(status), reason ?? "");
        }
        catch (ArgumentOutOfRangeException e)
        {
            throw new ArgumentException(e.Message, nameof(status), e);
        }
    }
}
