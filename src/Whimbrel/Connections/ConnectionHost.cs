using System.Net;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;
using Whimbrel.Tls;

namespace Whimbrel.Connections;

/// <summary>
/// Services of the server or client that a connection belongs to, so that connections refer to neither. One per server
/// or client; called on the connection's loop.
/// </summary>
internal abstract class ConnectionHost
{
    private readonly Lock _gate = new();

    private HostShard?[] _hostShards = [];
    private NoticePace _slowNotices;
    private NoticePace _largeNotices;
    private NoticePace _unreadNotices;
    private NoticePace _fileNotices;
    private NoticePace _handshakeNotices;
    private NoticePace _certificateNotices;
    private NoticePace _protocolNotices;
    private NoticePace _unfinishedNotices;
    private NoticePace _callNotices;
    private long _slowConsumers;
    private long _userExceptions;

    protected ConnectionHost(Engine engine, ConnectionOptions options, bool isAccepting)
    {
        Engine = engine;
        Options = options;
        IsAccepting = isAccepting;
        BackPressure = options.CommonLimits.BackPressure ?? isAccepting;
        Everyone = new SessionGroup(isAccepting ? "all sessions of the server" : "the session of the client",
            isHost: true);
    }

    internal Engine Engine { get; }

    /// <summary>Number of connections ended as slow consumers so far.</summary>
    internal long SlowConsumers => Volatile.Read(ref _slowConsumers);

    /// <summary>Number of exceptions of this host's user code so far.</summary>
    internal long UserExceptions => Volatile.Read(ref _userExceptions);

    internal ConnectionOptions Options { get; }

    /// <summary>True for a server: its connections were accepted.</summary>
    internal bool IsAccepting { get; }

    internal bool BackPressure { get; }

    /// <summary>TLS profile with which every connection of this host begins; null without TLS.</summary>
    internal TlsProfile? Tls { get; private protected init; }

    /// <summary>Group of all connections of this host.</summary>
    internal SessionGroup Everyone { get; }

    /// <summary>The server or client itself.</summary>
    internal abstract object Owner { get; }

    /// <summary>
    /// Called when a listener of this host has accepted a socket, on the listener's loop. Never called for a host
    /// without listeners.
    /// </summary>
    internal virtual void Accepted(Listener listener, RawSocket socket, PeerAddress peer, EndPoint local) =>
        listener.Loop.Discard(socket);

    /// <summary>Called when an accepted socket could not be prepared and is closed, on the listener's loop.</summary>
    internal virtual void AcceptFailed(NetworkException fault)
    {
    }

    /// <summary>Called when a listener of this host has closed a connection for lack of descriptors.</summary>
    internal virtual void CountShed()
    {
    }

    /// <summary>Called when a listener of this host has reached the descriptor limit.</summary>
    internal virtual void NoteDescriptorLimit(int error)
    {
    }

    /// <summary>Called when a listener of this host accepts no more and is being closed.</summary>
    internal virtual void ListenerEnded(Listener listener, int error)
    {
    }

    /// <summary>Reports that a listener of this host failed repeatedly and pauses. At most once a minute.</summary>
    internal virtual void NoteAcceptFailing(Listener listener, int error)
    {
    }

    /// <summary>
    /// Reports that a connection of this host was ended because its peer reads too slowly. At most once a minute.
    /// </summary>
    internal void NoteSlowConsumer(Session session, long pending, long limit)
    {
        Interlocked.Increment(ref _slowConsumers);
        if (!_slowNotices.TryTake(Engine.NowMs)) return;
        NoteSession(new DiagnosticEvent(
            DiagnosticEventKind.SlowConsumer,
            $"Session {session.Id:x} reached SendLimitBytes ({limit / 1024.0 / 1024.0:0.###} MiB; "
            + $"{pending / 1024.0 / 1024.0:0.0} MiB are pending now): disconnected by SlowConsumer=Disconnect. Await "
            + $"SendAsync, which waits for room; a session that answers many requests in one callback leaves the rest "
            + $"unread while IsAboveHighWaterMark is true.",
            "slow-consumer.md"));
    }

    /// <summary>
    /// Reports that a broadcast was larger than a member's queue can be, so that the member does not receive it. At
    /// most once a minute.
    /// </summary>
    internal void NoteTooLarge(Session session, int length, long limit)
    {
        if (!_largeNotices.TryTake(Engine.NowMs)) return;
        NoteSession(new DiagnosticEvent(
            DiagnosticEventKind.MessageTooLarge,
            $"A broadcast of {length:n0} bytes is larger than the send queue of session {session.Id:x} may ever be "
            + $"(SendLimitBytes is {limit:n0}): members with that limit do not receive it, and stay connected. Set "
            + $"Limits.AllowLargeMessages, raise Limits.SendBytes, or send it in parts.",
            "message-too-large.md"));
    }

    /// <summary>
    /// Reports that a session consumed nothing and the limit of unread data is reached. At most once a minute.
    /// </summary>
    internal void NoteUnreadLimit(Session session, int unread)
    {
        if (!_unreadNotices.TryTake(Engine.NowMs)) return;
        NoteSession(new DiagnosticEvent(
            DiagnosticEventKind.MessageTooLarge,
            $"{session.DisplayName} (session {session.Id:x}) consumed nothing of {unread:n0} unread bytes, and "
            + $"Limits.UnreadBytes is {Options.CommonLimits.UnreadBytes:n0}: its connection was reset. OnData returns "
            + $"the number of bytes that it has consumed, 0 only while a message is incomplete; raise "
            + $"Limits.UnreadBytes for longer messages.",
            "message-too-large.md"));
    }

    /// <summary>Reports that a file changed while it was being sent. At most once a minute.</summary>
    internal void NoteFile(Session session, Exception fault)
    {
        if (!_fileNotices.TryTake(Engine.NowMs)) return;
        NoteSession(new DiagnosticEvent(
            DiagnosticEventKind.System,
            $"Session {session.Id:x} was sending a file: {fault.Message} Its connection was ended, so that its peer "
            + $"does not take a part for the whole. Replace files by renaming new ones over them.",
            "file-failed.md",
            fault));
    }

    internal void CountUserException() => Interlocked.Increment(ref _userExceptions);

    /// <summary>Reports an exception of an override of a session without OnError.</summary>
    /// <param name="session">Session of the override.</param>
    /// <param name="callback">Name of the override.</param>
    /// <param name="exception">Exception that it threw.</param>
    /// <param name="isCaught">True if a protocol has caught it, and the connection continues.</param>
    /// <param name="advice">How to handle such exceptions; null to suggest an override if the session's class is the
    /// user's.</param>
    /// <param name="outcome">Effect on the peer, according to that protocol; null if it continues.</param>
    internal void NoteUserException(Session session, string callback, Exception exception, bool isCaught = false,
        string? advice = null, string? outcome = null)
    {
        advice ??= UserCode.IsOfUser(session.GetType()) ? "Override OnError to handle it yourself." : "";
        string consequence = outcome
            ?? (isCaught ? "The connection continues." : "Its connection was ended; other connections continue.");
        NoteUserException($"{callback} of {session.DisplayName}", $" (session {session.Id:x})", exception,
            advice.Length == 0 ? consequence : $"{consequence} {advice}");
    }

    /// <summary>
    /// Reports an exception of user code without a handler. Once a minute for each place and exception type.
    /// </summary>
    internal void NoteUserException(string what, string which, Exception exception, string consequence)
    {
        string type = exception.GetType().Name;
        // Servers are few, and each reports its own; clients may be very many.
        string place = IsAccepting || Options.OnDiagnosticEvent is not null
            ? $"{System.Runtime.CompilerServices.RuntimeHelpers.GetHashCode(Owner)}: "
            : "";
        if (!Engine.ExceptionNotices.TryTake($"{place}{what}: {type}", Engine.NowMs, out long leftOut)) return;
        NoteSession(new DiagnosticEvent(DiagnosticEventKind.UserException,
            $"{what}{which} threw {ErrorText.Of(exception)}. {consequence}{NoticePaces.LeftOutText(leftOut)}",
            "user-exception.md", exception));
    }

    /// <summary>
    /// Called when the handler of a stream begins, where the session's callbacks run. A stop waits for it.
    /// </summary>
    internal virtual void HandlerBegan(Session session)
    {
    }

    /// <summary>Called when the handler has returned. Any thread.</summary>
    internal virtual void HandlerEnded(Session session)
    {
    }

    /// <summary>
    /// Returns the stopwatch time if the duration of the handshake that begins now is measured; otherwise zero.
    /// </summary>
    internal virtual long HandshakeBegins() => 0;

    /// <summary>
    /// Called on the loop when a measured handshake has succeeded (<paramref name="info"/>) or failed.
    /// </summary>
    internal virtual void HandshakeEnded(long since, TlsInfo? info, string? failure)
    {
    }

    /// <summary>Reports a failed TLS handshake. At most once a minute; all are counted.</summary>
    internal void NoteHandshake(CloseReason reason, string page)
    {
        if (IsAccepting && _handshakeNotices.TryTake(Engine.NowMs))
            NoteSession(new DiagnosticEvent(DiagnosticEventKind.TlsHandshake,
                $"{reason}. Further failures of the next minute are only counted (ServerCounters.TlsFailed).", page));
    }

    /// <summary>Reports received data that is not a frame of the session's format. At most once a minute.</summary>
    internal void NoteMismatch(Session session, Exception error)
    {
        if (!_protocolNotices.TryTake(Engine.NowMs)) return;
        NoteSession(new DiagnosticEvent(
            DiagnosticEventKind.Protocol,
            $"{session.DisplayName} (session {session.Id:x}) reset its connection to {session.RemoteEndPoint}: "
            + $"{ErrorText.WithoutStop(error.Message)}. Both sides need the same FrameFormat, with a LimitBytes that "
            + $"has room for the longest message.",
            "protocol-mismatch.md"));
    }

    /// <summary>Reports that a peer's data ended inside a message. At most once a minute.</summary>
    internal void NoteUnfinished(Session session, int bytes)
    {
        if (!_unfinishedNotices.TryTake(Engine.NowMs)) return;
        NoteSession(new DiagnosticEvent(
            DiagnosticEventKind.Protocol,
            $"The data of {session.RemoteEndPoint} ended inside a message: {session.DisplayName} (session "
            + $"{session.Id:x}) has dropped {bytes:n0} bytes. Both sides need the same FrameFormat, and the peer has "
            + $"to end its last message (a line by LF) before it closes.",
            "protocol-mismatch.md"));
    }

    /// <summary>
    /// Reports that a session of calls has answered none for a while, and receives nothing. At most once a minute.
    /// </summary>
    internal void NoteOpenCalls(Session session, int open, double seconds)
    {
        if (!_callNotices.TryTake(Engine.NowMs)) return;
        NoteSession(new DiagnosticEvent(
            DiagnosticEventKind.Protocol,
            $"{session.DisplayName} (session {session.Id:x}) has {open} calls without an answer (openLimit) and has "
            + $"answered none for {seconds:0} s: it receives nothing until one is answered. Answer each call that "
            + $"OnCall is given, with an error if need be, or raise openLimit.",
            "protocol-mismatch.md"));
    }

    /// <summary>Reports that a certificate could not be reloaded, or has expired. Any thread.</summary>
    internal void NoteCertificate(string message)
    {
        if (_certificateNotices.TryTake(Engine.NowMs))
            NoteSession(new DiagnosticEvent(DiagnosticEventKind.Certificate, message, "tls-certificate.md"));
    }

    /// <summary>Reports a diagnostic event about one of this host's sessions.</summary>
    internal abstract void NoteSession(DiagnosticEvent notice);

    /// <summary>
    /// Creates the session of a <see cref="Newcomer"/> after its handshake. Returns null if none could be created,
    /// which has been reported; the exception is returned for the close reason.
    /// </summary>
    internal virtual Session? MakeSession(Newcomer newcomer, TlsInfo tls, out Exception? thrown)
    {
        thrown = null;
        return null;
    }

    /// <summary>Called after the session's own OnConnecting, if that ran; the session may be closed here.</summary>
    internal virtual void SessionBegan(Session session)
    {
    }

    /// <summary>Called when the session's OnConnecting has returned: adopts the accepted socket, or connects.</summary>
    internal abstract void SessionConnecting(Connection connection);

    /// <summary>Called after the session's own OnConnected.</summary>
    internal abstract void SessionConnected(Session session);

    /// <summary>Called after OnConnected of a session that took the connection over.</summary>
    internal virtual void SessionTookOver(Session session)
    {
    }

    /// <summary>Called before OnError if the session's OnConnected has thrown.</summary>
    internal virtual void SessionFailedToBegin(Session session, Exception exception)
    {
    }

    /// <summary>Called after the session's own OnDisconnecting.</summary>
    internal virtual void SessionDisconnecting(Session session, CloseReason reason)
    {
    }

    /// <summary>Called before the session's last callback: its place is free again (contract 1).</summary>
    internal abstract void SessionEnding(Session session);

    /// <summary>Called after the session's last callback.</summary>
    internal abstract void SessionEnded(Session session, CloseReason reason, bool wasConnected);

    /// <summary>Called when a connection continues with another session.</summary>
    internal abstract void SessionReplaced(Session old, Session next);

    internal HostShard ShardOf(Loop loop)
    {
        HostShard?[] shards = Volatile.Read(ref _hostShards);
        return shards.Length > loop.Index && shards[loop.Index] is { } shard ? shard : AddShard(loop);
    }

    private HostShard AddShard(Loop loop)
    {
        // tidy: allowed because it runs once for each loop that a host meets
        lock (_gate)
        {
            // Copied before the change, because readers use the old table without a lock.
            HostShard?[] shards = new HostShard?[Math.Max(_hostShards.Length, loop.Index + 1)];
            _hostShards.CopyTo(shards, 0);
            HostShard shard = shards[loop.Index] ??= new HostShard(this, loop);
            Volatile.Write(ref _hostShards, shards);
            return shard;
        }
    }

    internal IEnumerable<HostShard> Shards
    {
        get
        {
            foreach (HostShard? shard in Volatile.Read(ref _hostShards))
            {
                if (shard is not null) yield return shard;
            }
        }
    }
}
