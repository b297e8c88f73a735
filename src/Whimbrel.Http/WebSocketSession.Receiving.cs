using System.Runtime.CompilerServices;
using Whimbrel.Http.Parsing;
using Whimbrel.Http.WebSockets;

namespace Whimbrel.Http;

// Messages that are pulled: an inbox stands where the overrides would be (WebSockets/WebSocketInbox.cs).
public partial class WebSocketSession
{
    private readonly WebSocketInbox? _inbox;

    /// <summary>A session whose messages go to the overrides of its class, or are pulled when it is of no other class than this.</summary>
    public WebSocketSession()
    {
        if (GetType() == typeof(WebSocketSession)) _inbox = new WebSocketInbox(this, null);
    }

    internal WebSocketSession(Func<WebSocketSession, CancellationToken, Task> handler) => _inbox = new WebSocketInbox(this, handler);

    /// <summary>Dials, for messages that are pulled. More is in <see cref="WebSocketClient"/>.</summary>
    /// <param name="address"><c>ws://host:port/path?query</c>, or <c>wss://</c> with TLS.</param>
    /// <param name="options">Limits and wishes; null for the defaults.</param>
    /// <param name="tls">Rules for <c>wss://</c>; null for the defaults.</param>
    /// <param name="cancellationToken">Gives up the dial.</param>
    /// <exception cref="WebSocketException">The server did not agree, or not as it should.</exception>
    /// <exception cref="NetworkException">There was no connection.</exception>
    public static ValueTask<WebSocketSession> ConnectAsync(string address, WebSocketOptions? options = null, TlsOptions? tls = null, CancellationToken cancellationToken = default) =>
        new WebSocketClient(address, static () => new WebSocketSession(), options, tls).ConnectAsync(cancellationToken);

    /// <summary>
    /// Receives what there is of a message, or waits for it: messages larger than memory come in parts. One receive at a time, from any thread. Awaited on the loop it goes on
    /// there, elsewhere on the pool. Allocates nothing.
    /// </summary>
    /// <param name="into">Filled from its start, with bytes of one message. Of length 0 it only waits.</param>
    /// <param name="cancellationToken">Gives up waiting; no byte is lost.</param>
    /// <returns>How much of which kind, whether the message ends with it, or that the peer has ended.</returns>
    /// <exception cref="InvalidOperationException">A receive is under way, or this class has its messages told by overrides.</exception>
    /// <exception cref="WebSocketException">The connection has ended without a close frame of the peer's.</exception>
    public ValueTask<WebSocketReceived> ReceiveAsync(Memory<byte> into, CancellationToken cancellationToken = default) => Inbox.ReceiveAsync(into, cancellationToken);

    /// <summary>As <see cref="ReceiveAsync"/>, blocking. On a loop's thread it throws, and so it does in a callback of this session on the pool: await there.</summary>
    /// <param name="into">As there.</param>
    /// <param name="timeout">How long to wait, or <see cref="Timeout.InfiniteTimeSpan"/>. No byte is lost by it.</param>
    /// <exception cref="InvalidOperationException">As in <see cref="ReceiveAsync"/>, or it was called where nothing could come meanwhile.</exception>
    /// <exception cref="TimeoutException">Nothing has come in time.</exception>
    public WebSocketReceived Receive(Memory<byte> into, TimeSpan timeout)
    {
        WebSocketInbox inbox = Inbox;
        ThrowIfNothingCanCome();
        return Block(timeout, stop => inbox.ReceiveAsync(into, stop));
    }

    /// <summary>Receives a whole message, of at most <see cref="WebSocketOptions.MessageLimitBytes"/>: a larger one closes with 1009.</summary>
    /// <param name="cancellationToken">Gives up waiting; what has come of a message is for the next call.</param>
    /// <returns>The message, in memory of its own; null when the peer has ended.</returns>
    /// <exception cref="InvalidOperationException">As in <see cref="ReceiveAsync"/>.</exception>
    /// <exception cref="WebSocketException">The connection has ended without a close frame of the peer's, or the message is too large.</exception>
    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    public async ValueTask<WebSocketMessage?> ReceiveMessageAsync(CancellationToken cancellationToken = default)
    {
        WebSocketInbox inbox = Inbox;
        while (true)
        {
            WebSocketReceived got = await inbox.ReceiveAsync(inbox.RoomForMessage(), cancellationToken).ConfigureAwait(false);
            if (got.IsEnd) return null;
            if (inbox.AddToMessage(got.Count) > _options!.MessageLimitBytes)
            {
                inbox.WasTooLarge = true;
                Close(WebSocketStatus.MessageTooBig, WebSocketRules.TextOf(WebSocketRule.MessageTooLarge));
                throw new WebSocketException($"A message has more than {_options.MessageLimitBytes} bytes ({nameof(WebSocketOptions.MessageLimitBytes)}).");
            }

            if (got.IsLast) return new WebSocketMessage(inbox.TakeMessage(), got.IsText);
        }
    }

    /// <summary>As <see cref="ReceiveMessageAsync"/>, blocking. On a loop's thread it throws, and so it does in a callback of this session on the pool: await there.</summary>
    /// <param name="timeout">How long to wait, or <see cref="Timeout.InfiniteTimeSpan"/>. What has come of a message is for the next call.</param>
    /// <exception cref="InvalidOperationException">As in <see cref="ReceiveAsync"/>, or it was called where nothing could come meanwhile.</exception>
    /// <exception cref="TimeoutException">No message has come in time.</exception>
    public WebSocketMessage? ReceiveMessage(TimeSpan timeout)
    {
        ThrowIfNothingCanCome();
        return Block(timeout, ReceiveMessageAsync);
    }

    /// <summary>
    /// This session as the abstract class of .NET, for code that is written against that. The rules are those of the class: one receive and one send at a time, a cancelled
    /// receive or send aborts. It replaces the other ways to receive. <c>CloseOutputAsync</c> completes when the close frame has left. Disposing it aborts what was not closed. Made
    /// behind the end of the connection it gives what came before.
    /// </summary>
    /// <exception cref="InvalidOperationException">This class has its messages told by overrides.</exception>
    public System.Net.WebSockets.WebSocket AsWebSocket() => new WebSocketView(this);

    /// <summary>Starts the handler of a route. The session's thread.</summary>
    protected override void OnConnected() => _inbox?.Start(_isInline);

    internal WebSocketInbox Inbox => _inbox ?? throw new InvalidOperationException($"The messages of {GetType().Name} go to its overrides: a session of the class {nameof(WebSocketSession)} itself is pulled.");

    /// <summary>The session's thread is the loop, and this is it.</summary>
    internal bool IsOnItsLoop => _isInline && Loop.IsCurrent;

    internal void HandlerThrew(Exception exception)
    {
        Close(WebSocketStatus.InternalError);
        NoteException(exception, "The handler of a WebSocket route", "", IsConnected ? ErrorOutcome : "Its connection had ended.");
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

    // What has come is told to the session behind the callback that runs: one that blocked for it would wait for itself. Said also when something is kept already, so that it does not
    // depend on luck.
    internal void ThrowIfNothingCanCome()
    {
        if (!_isInline && IsOnSessionThread) throw new InvalidOperationException("A callback of this session would block for what only comes when it has returned: await it instead.");
    }

    internal static T Block<T>(TimeSpan timeout, Func<CancellationToken, ValueTask<T>> receive)
    {
        if (Loop.Current is not null) throw new InvalidOperationException("This would block the loop, and all its connections: await it instead.");
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
