using System.Net;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;
using Whimbrel.Tls;

namespace Whimbrel.Connections;

/// <summary>
/// What a connection needs of the server or client it belongs to, so that connections know neither. One per server or
/// client; calls come on the connection's loop.
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
    private NoticePace _callNotices;
    private long _slowConsumers;
    private long _userExceptions;

    protected ConnectionHost(Engine engine, ConnectionOptions options, bool isAccepting)
    {
        Engine = engine;
        Options = options;
        IsAccepting = isAccepting;
        BackPressure = options.BackPressure ?? isAccepting;
        Everyone = new SessionGroup(isAccepting ? "all sessions of the server" : "the session of the client", isHost: true);
    }

    internal Engine Engine { get; }

    /// <summary>Connections ended as slow consumers so far.</summary>
    internal long SlowConsumers => Volatile.Read(ref _slowConsumers);

    /// <summary>Exceptions of the user's code for this host so far.</summary>
    internal long UserExceptions => Volatile.Read(ref _userExceptions);

    internal ConnectionOptions Options { get; }

    /// <summary>True for a server: its connections were accepted.</summary>
    internal bool IsAccepting { get; }

    internal bool BackPressure { get; }

    /// <summary>The TLS that every connection of this host begins with; null without.</summary>
    internal TlsProfile? Tls { get; private protected init; }

    /// <summary>All connections of this host.</summary>
    internal SessionGroup Everyone { get; }

    /// <summary>The server or client itself.</summary>
    internal abstract object Owner { get; }

    /// <summary>A listener of this host accepted a socket. On the listener's loop. A host that does not listen never gets one.</summary>
    internal virtual void Accepted(Listener listener, RawSocket socket, PeerAddress peer, EndPoint local) => listener.Loop.Discard(socket);

    /// <summary>An accepted socket could not be prepared, and is closed. On the listener's loop.</summary>
    internal virtual void AcceptFailed(NetworkException fault)
    {
    }

    /// <summary>A listener of this host closed a connection for want of descriptors.</summary>
    internal virtual void CountShed()
    {
    }

    /// <summary>A listener of this host met the descriptor limit.</summary>
    internal virtual void NoteDescriptorLimit(int error)
    {
    }

    /// <summary>A listener of this host accepts no more and is being closed: its socket listens no longer.</summary>
    internal virtual void ListenerEnded(Listener listener, int error)
    {
    }

    /// <summary>A listener of this host failed many times in a row and rests before it goes on. Told at most once a minute.</summary>
    internal virtual void NoteAcceptFailing(Listener listener, int error)
    {
    }

    /// <summary>A connection of this host was ended because its peer reads too slowly. Told at most once a minute.</summary>
    internal void NoteSlowConsumer(Session session, long pending, long limit)
    {
        Interlocked.Increment(ref _slowConsumers);
        if (!_slowNotices.TryTake(Engine.NowMs)) return;
        NoteSession(new DiagnosticEvent(
            DiagnosticEventKind.SlowConsumer,
            $"Session {session.Id:x} reached SendLimitBytes ({limit / 1024.0 / 1024.0:0.###} MiB; {pending / 1024.0 / 1024.0:0.0} MiB are pending now): disconnected by SlowConsumer=Disconnect. Await SendAsync, which waits for room; a session that answers many requests in one callback leaves the rest unread while IsAboveHighWaterMark is true.",
            "slow-consumer.md"));
    }

    /// <summary>A broadcast was larger than a member's queue may ever be: that member goes without it. Told at most
    /// once a minute.</summary>
    internal void NoteTooLarge(Session session, int length, long limit)
    {
        if (!_largeNotices.TryTake(Engine.NowMs)) return;
        NoteSession(new DiagnosticEvent(
            DiagnosticEventKind.MessageTooLarge,
            $"A broadcast of {length:n0} bytes is larger than the send queue of session {session.Id:x} may ever be (SendLimitBytes is {limit:n0}): members with that limit go without it, and nobody is disconnected. Set AllowLargeMessages, raise SendLimitBytes, or send it in parts.",
            "message-too-large.md"));
    }

    /// <summary>A session took nothing of what is unread, and the limit is reached. At most one notice a minute.</summary>
    internal void NoteUnreadLimit(Session session, int unread)
    {
        if (!_unreadNotices.TryTake(Engine.NowMs)) return;
        NoteSession(new DiagnosticEvent(
            DiagnosticEventKind.MessageTooLarge,
            $"{session.DisplayName} (session {session.Id:x}) took nothing of {unread:n0} unread bytes, and UnreadLimitBytes is {Options.UnreadLimitBytes:n0}: its connection was reset. An OnData returns how many bytes it has used, 0 only while a message is incomplete; raise UnreadLimitBytes for messages that are longer.",
            "message-too-large.md"));
    }

    /// <summary>A file that was being sent was not what had been promised of it. Told at most once a minute.</summary>
    internal void NoteFile(Session session, Exception fault)
    {
        if (!_fileNotices.TryTake(Engine.NowMs)) return;
        NoteSession(new DiagnosticEvent(
            DiagnosticEventKind.System,
            $"Session {session.Id:x} was sending a file: {fault.Message} Its connection was ended, so that its peer does not take a part for the whole. Replace files by renaming new ones over them.",
            "file-failed.md",
            fault));
    }

    internal void CountUserException() => Interlocked.Increment(ref _userExceptions);

    /// <summary>An override threw, and the session has no OnError of its own.</summary>
    /// <param name="session">Its session.</param>
    /// <param name="callback">What threw.</param>
    /// <param name="exception">What was thrown.</param>
    /// <param name="isCaught">A protocol has caught it, and the connection continues.</param>
    /// <param name="advice">How to handle such exceptions; null for the override, where the class of the session is the user's.</param>
    /// <param name="outcome">What the peer gets, by that protocol; null when it continues.</param>
    internal void NoteUserException(Session session, string callback, Exception exception, bool isCaught = false, string? advice = null, string? outcome = null)
    {
        advice ??= UserCode.IsOfUser(session.GetType()) ? "Override OnError to handle it yourself." : "";
        string consequence = outcome ?? (isCaught ? "The connection continues." : "Its connection was ended; the others go on.");
        NoteUserException($"{callback} of {session.DisplayName}", $" (session {session.Id:x})", exception, advice.Length == 0 ? consequence : $"{consequence} {advice}");
    }

    /// <summary>User code threw, and nobody else was told. Once a minute for each piece of code and class of exception.</summary>
    internal void NoteUserException(string what, string which, Exception exception, string consequence)
    {
        string type = exception.GetType().Name;
        // Servers are few, and tell their own; clients may be very many.
        string place = IsAccepting || Options.OnDiagnosticEvent is not null ? $"{System.Runtime.CompilerServices.RuntimeHelpers.GetHashCode(Owner)}: " : "";
        if (!Engine.ExceptionNotices.TryTake($"{place}{what}: {type}", Engine.NowMs, out long leftOut)) return;
        NoteSession(new DiagnosticEvent(DiagnosticEventKind.UserException, $"{what}{which} threw {ErrorText.Of(exception)}. {consequence}{NoticePaces.LeftOutText(leftOut)}", "user-exception.md", exception));
    }

    /// <summary>The handler of a stream begins: a stop waits for it. Where the session's callbacks run.</summary>
    internal virtual void HandlerBegan(Session session)
    {
    }

    /// <summary>The handler has returned. Any thread.</summary>
    internal virtual void HandlerEnded(Session session)
    {
    }

    /// <summary>A time of the stopwatch when somebody wants to know how long the handshake takes that begins now, zero otherwise.</summary>
    internal virtual long HandshakeBegins() => 0;

    /// <summary>A handshake is done (<paramref name="info"/> says how) or has failed whose beginning was wanted. On its loop.</summary>
    internal virtual void HandshakeEnded(long since, TlsInfo? info, string? failure)
    {
    }

    /// <summary>A TLS handshake failed. Told at most once a minute; all are counted.</summary>
    internal void NoteHandshake(CloseReason reason, string page)
    {
        if (IsAccepting && _handshakeNotices.TryTake(Engine.NowMs)) NoteSession(new DiagnosticEvent(DiagnosticEventKind.TlsHandshake, $"{reason}. Further failures of the next minute are only counted (ServerCounters.TlsFailed).", page));
    }

    /// <summary>The peer's bytes are no frames of the session's format. At most one notice a minute.</summary>
    internal void NoteMismatch(Session session, Exception error)
    {
        if (!_protocolNotices.TryTake(Engine.NowMs)) return;
        NoteSession(new DiagnosticEvent(
            DiagnosticEventKind.Protocol,
            $"{session.DisplayName} (session {session.Id:x}) reset its connection to {session.RemoteEndPoint}: {ErrorText.WithoutStop(error.Message)}. Both sides need the same FrameFormat, with a LimitBytes that has room for the longest message.",
            "protocol-mismatch.md"));
    }

    /// <summary>A session of calls has answered none for a while, and receives nothing. At most one notice a minute.</summary>
    internal void NoteOpenCalls(Session session, int open, double seconds)
    {
        if (!_callNotices.TryTake(Engine.NowMs)) return;
        NoteSession(new DiagnosticEvent(
            DiagnosticEventKind.Protocol,
            $"{session.DisplayName} (session {session.Id:x}) has {open} calls without an answer (openLimit) and has answered none for {seconds:0} s: it receives nothing until one is answered. Answer each call that OnCall is given, with an error if need be, or raise openLimit.",
            "protocol-mismatch.md"));
    }

    /// <summary>A certificate could not be loaded anew, or has expired. Any thread.</summary>
    internal void NoteCertificate(string message)
    {
        if (_certificateNotices.TryTake(Engine.NowMs)) NoteSession(new DiagnosticEvent(DiagnosticEventKind.Certificate, message, "tls-certificate.md"));
    }

    /// <summary>Something about one of its sessions that an operator should know.</summary>
    internal abstract void NoteSession(DiagnosticEvent notice);

    /// <summary>
    /// The handshake of a <see cref="Newcomer"/> is done: the session it gets, or null when none could be made, which was told. What it threw
    /// is given for the reason.
    /// </summary>
    internal virtual Session? MakeSession(Newcomer newcomer, TlsInfo tls, out Exception? thrown)
    {
        thrown = null;
        return null;
    }

    /// <summary>After the session's own OnConnecting, where that ran; the session may be closed here.</summary>
    internal virtual void SessionBegan(Session session)
    {
    }

    /// <summary>The session's OnConnecting has returned, and the attempt goes on: adopt what was accepted, or dial.</summary>
    internal abstract void SessionConnecting(Connection connection);

    /// <summary>After the session's own OnConnected.</summary>
    internal abstract void SessionConnected(Session session);

    /// <summary>The same for a session that took the connection over.</summary>
    internal virtual void SessionTookOver(Session session)
    {
    }

    /// <summary>The session's OnConnected has thrown. Before its OnError.</summary>
    internal virtual void SessionFailedToBegin(Session session, Exception exception)
    {
    }

    /// <summary>After the session's own OnDisconnecting.</summary>
    internal virtual void SessionDisconnecting(Session session, CloseReason reason)
    {
    }

    /// <summary>Before the session's last callback: the place is free again (contract 1).</summary>
    internal abstract void SessionEnding(Session session);

    /// <summary>After the session's last callback.</summary>
    internal abstract void SessionEnded(Session session, CloseReason reason, bool wasConnected);

    /// <summary>The session whose connection goes on with another one.</summary>
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
            // Copied before it is changed: readers hold the old table without a lock.
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
