using System.Runtime.CompilerServices;
using Whimbrel.Http.Parsing;
using Whimbrel.Http.WebSockets;

namespace Whimbrel.Http;

// Pulled messages: an inbox replaces the overrides (WebSockets/WebSocketInbox.cs).
public partial class WebSocketSession
{
    private readonly WebSocketInbox? _inbox;

    /// <summary>Creates a session. In a derived class messages go to the overrides; in this class itself they are
    /// pulled.</summary>
    public WebSocketSession()
    {
        if (GetType() == typeof(WebSocketSession)) _inbox = new WebSocketInbox(this, null);
    }

    internal WebSocketSession(Func<WebSocketSession, CancellationToken, Task> handler) =>
        _inbox = new WebSocketInbox(this, handler);

    /// <summary>Connects a session with pulled messages. <see cref="WebSocketClient"/> has more options.</summary>
    /// <param name="address"><c>ws://host:port/path?query</c>, or <c>wss://</c> with TLS.</param>
    /// <param name="options">Limits and settings; null for the defaults.</param>
    /// <param name="tls">TLS settings for <c>wss://</c>; null for the defaults.</param>
    /// <param name="cancellationToken">Cancels the connect attempt.</param>
    /// <exception cref="WebSocketException">The server rejected the handshake, or its response is not
    /// valid.</exception>
    /// <exception cref="NetworkException">The connection failed.</exception>
    public static ValueTask<WebSocketSession> ConnectAsync(string address, WebSocketOptions? options = null,
        TlsOptions? tls = null, CancellationToken cancellationToken = default) =>
        new WebSocketClient(address, static () => new WebSocketSession(), options, tls).ConnectAsync(cancellationToken);

    /// <summary>
    /// Receives the available part of a message, or waits for it; a message larger than the memory comes in parts. One
    /// receive at a time, from any thread. Awaited on the loop it resumes there, otherwise on the pool. Does not
    /// allocate.
    /// </summary>
    /// <param name="into">Buffer, filled from its start with bytes of one message. With length 0 the call only
    /// waits.</param>
    /// <param name="cancellationToken">Cancels the wait; no byte is lost.</param>
    /// <returns>Number of bytes, kind, and whether the message ends with them; or the end of the peer.</returns>
    /// <exception cref="InvalidOperationException">A receive is pending, or messages of this class go to
    /// overrides.</exception>
    /// <exception cref="WebSocketException">The connection has ended without a close frame of the peer.</exception>
    public ValueTask<WebSocketReceived> ReceiveAsync(Memory<byte> into,
        CancellationToken cancellationToken = default) => Inbox.ReceiveAsync(into, cancellationToken);

    /// <summary>Receives as <see cref="ReceiveAsync"/> does, blocking. Throws on a loop's thread and in a pool callback
    /// of this session: use await there.</summary>
    /// <param name="into">Buffer, as in <see cref="ReceiveAsync"/>.</param>
    /// <param name="timeout">Longest wait, or <see cref="Timeout.InfiniteTimeSpan"/>. After a timeout no byte is
    /// lost.</param>
    /// <exception cref="InvalidOperationException">As in <see cref="ReceiveAsync"/>, or the calling thread would block
    /// the delivery of data.</exception>
    /// <exception cref="TimeoutException">Nothing was received in time.</exception>
    public WebSocketReceived Receive(Memory<byte> into, TimeSpan timeout)
    {
        WebSocketInbox inbox = Inbox;
        ThrowIfNothingCanCome();
        return Block(timeout, stop => inbox.ReceiveAsync(into, stop));
    }

    /// <summary>Receives a whole message of at most <see cref="WebSocketOptions.MessageLimitBytes"/>; a larger one
    /// closes the connection with 1009.</summary>
    /// <param name="cancellationToken">Cancels the wait; the received part of a message is kept for the next
    /// call.</param>
    /// <returns>The message, in its own memory; null after the peer's close frame.</returns>
    /// <exception cref="InvalidOperationException">As in <see cref="ReceiveAsync"/>.</exception>
    /// <exception cref="WebSocketException">The connection has ended without a close frame of the peer, or the message
    /// is too large.</exception>
    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    public async ValueTask<WebSocketMessage?> ReceiveMessageAsync(CancellationToken cancellationToken = default)
    {
        WebSocketInbox inbox = Inbox;
        while (true)
        {
            WebSocketReceived got = await inbox.ReceiveAsync(inbox.RoomForMessage(), cancellationToken)
                .ConfigureAwait(false);
            if (got.IsEnd) return null;
            if (inbox.AddToMessage(got.Count) > _options!.MessageLimitBytes)
            {
                inbox.WasTooLarge = true;
                Close(WebSocketStatus.MessageTooBig, WebSocketRules.TextOf(WebSocketRule.MessageTooLarge));
                throw new WebSocketException($"A message has more than {_options.MessageLimitBytes} bytes "
                    + $"({nameof(WebSocketOptions.MessageLimitBytes)}).");
            }

            if (got.IsLast) return new WebSocketMessage(inbox.TakeMessage(), got.IsText);
        }
    }

    /// <summary>Receives as <see cref="ReceiveMessageAsync"/> does, blocking. Throws on a loop's thread and in a pool
    /// callback of this session: use await there.</summary>
    /// <param name="timeout">Longest wait, or <see cref="Timeout.InfiniteTimeSpan"/>. The received part of a message is
    /// kept for the next call.</param>
    /// <exception cref="InvalidOperationException">As in <see cref="ReceiveAsync"/>, or the calling thread would block
    /// the delivery of data.</exception>
    /// <exception cref="TimeoutException">No message was received in time.</exception>
    public WebSocketMessage? ReceiveMessage(TimeSpan timeout)
    {
        ThrowIfNothingCanCome();
        return Block(timeout, ReceiveMessageAsync);
    }

    /// <summary>
    /// Returns this session as the abstract WebSocket class of .NET. The rules are those of that class: one receive and
    /// one send at a time; a cancelled receive or send aborts. It replaces the other ways to receive.
    /// <c>CloseOutputAsync</c> completes when the close frame has left. Disposing it aborts an open WebSocket. After
    /// the end of the connection it still returns earlier data.
    /// </summary>
    /// <exception cref="InvalidOperationException">Messages of this class go to overrides.</exception>
    public System.Net.WebSockets.WebSocket AsWebSocket() => new WebSocketView(this);

    /// <summary>Starts the handler of a route. The session's thread.</summary>
    protected override void OnConnected() => _inbox?.Start(_isInline);

    internal WebSocketInbox Inbox => _inbox ?? throw new InvalidOperationException($"The messages of {GetType().Name} "
        + $"go to its overrides: a session of the class {nameof(WebSocketSession)} itself is pulled.");

    /// <summary>Whether the session's callbacks run on the loop, and this thread is that loop.</summary>
    internal bool IsOnItsLoop => _isInline && Loop.IsCurrent;

    internal void HandlerThrew(Exception exception)
    {
        Close(WebSocketStatus.InternalError);
        ReportException(exception, "The handler of a WebSocket route", "",
            IsConnected ? ErrorOutcome : "Its connection had ended.");
    }

    private void TakeForReader(WebSocketInbox inbox, Span<byte> piece, bool isText, bool isLast)
    {
        if (!isText)
        {
            inbox.Take(piece, _reader.Key, isText: false, isLast);
            return;
        }

        WebSocketMask.Apply(piece, _reader.Key);
        if (_message.IsTextSoFar(piece, isLast)) inbox.Take(piece, 0, isText: true, isLast);
        else Fail(WebSocketRule.BadUtf8);
    }

    // Received data is delivered after the running callback returns, so a callback that blocks for it would deadlock.
    // This throws even if data is available, so that the result does not depend on timing.
    internal void ThrowIfNothingCanCome()
    {
        if (!_isInline && IsOnSessionThread)
            throw new InvalidOperationException(
                "A callback of this session would block for what only comes when it has returned: await it instead.");
    }

    internal static T Block<T>(TimeSpan timeout, Func<CancellationToken, ValueTask<T>> receive)
    {
        if (Loop.Current is not null)
            throw new InvalidOperationException(
                "This would block the loop, and all its connections: await it instead.");
        using CancellationTokenSource limit = new(timeout);
        try
        {
            return receive(limit.Token).AsTask().GetAwaiter().GetResult();
        }
        catch (OperationCanceledException e) when (limit.IsCancellationRequested)
        {
            throw new TimeoutException($"It was not done within {timeout.TotalSeconds} s.", e);
        }
    }
}
