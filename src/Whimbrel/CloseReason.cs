using System.Net.Sockets;
using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>Why a connection or a dial attempt ended.</summary>
public enum CloseCause
{
    /// <summary>It has not ended.</summary>
    None,

    /// <summary>This side called <c>Close</c> or finished sending, and the peer followed.</summary>
    LocalClose,

    /// <summary>This side called <c>Abort</c>.</summary>
    LocalAbort,

    /// <summary>The peer finished sending (FIN), and this side closed in answer.</summary>
    PeerClosed,

    /// <summary>The peer or the network reset the connection, or the peer was gone when this side sent.</summary>
    PeerReset,

    /// <summary>The send queue passed its limit under <see cref="SlowConsumer.Disconnect"/>.</summary>
    SlowConsumer,

    /// <summary>The session left more bytes unread than <see cref="ConnectionOptions.UnreadLimitBytes"/> and took none.</summary>
    UnreadLimit,

    /// <summary>An override of the session, or the factory, threw.</summary>
    UserException,

    /// <summary>A <c>SendAsync</c> was cancelled after its first piece, or a dial was cancelled.</summary>
    Cancelled,

    /// <summary>The connection went on with another session (<c>HandOver</c>).</summary>
    HandedOver,

    /// <summary>The server stopped.</summary>
    ServerStopped,

    /// <summary>The engine was disposed.</summary>
    EngineStopped,

    /// <summary>The host name has no address, or could not be looked up.</summary>
    UnknownHost,

    /// <summary>No byte came or went for <see cref="ConnectionOptions.IdleTimeout"/>.</summary>
    IdleTimeout,

    /// <summary>Nobody listens at the address.</summary>
    Refused,

    /// <summary>No route to the address, or the address cannot be used from here.</summary>
    Unreachable,

    /// <summary>The dial took longer than allowed, or the peer stopped answering.</summary>
    TimedOut,

    /// <summary>The process or the system has no descriptor, memory or slot left.</summary>
    ResourceLimit,

    /// <summary>Any other error of the system; <see cref="CloseReason.ErrorCode"/> has its number.</summary>
    SystemError,

    /// <summary>A dial whose socket could not be prepared: the system refused an option, or <see cref="ConnectionOptions.OnSocketCreated"/> threw. <see cref="CloseReason.Exception"/> says which.</summary>
    SocketOption,

    /// <summary>The TLS handshake failed. <see cref="CloseReason.Exception"/> is a <see cref="TlsException"/> that says why.</summary>
    TlsHandshake,

    /// <summary>TLS ended a connection after its handshake: a bad record, an alert, a flood. <see cref="CloseReason.Exception"/> is a <see cref="TlsException"/> that says why.</summary>
    TlsBroken,

    /// <summary>The peer's bytes ended without TLS's proper end (close_notify): somebody may have cut them off.</summary>
    TlsTruncated,

    /// <summary>The peer sent nothing for <see cref="ConnectionOptions.ReceiveTimeout"/> while it was listened to.</summary>
    ReceiveTimeout,

    /// <summary>The peer took nothing of what was queued for <see cref="ConnectionOptions.SendTimeout"/>.</summary>
    SendTimeout,

    /// <summary>A phase of the session's protocol took too long (<see cref="SessionPhase"/>). <see cref="CloseReason.Exception"/> is a <see cref="TimeoutException"/> that names it.</summary>
    PhaseTimeout,

    /// <summary>A file ended before all that was to be sent of it, or could not be read. <see cref="CloseReason.Exception"/> says which.</summary>
    FileFailed,

    /// <summary>
    /// The peer's bytes break the rules of the session's protocol, and this side ended the connection for that. <see
    /// cref="CloseReason.Exception"/> says what was wrong;
    /// for frames it is a <see cref="FrameException"/>. Also for a server that does not open the WebSocket that a client
    /// asked for.
    /// </summary>
    ProtocolError,
}

/// <summary>Who was the first to end it.</summary>
public enum CloseInitiator
{
    /// <summary>Code on this side.</summary>
    Local,

    /// <summary>The other end.</summary>
    Peer,

    /// <summary>The library, because a limit was reached or a rule was broken.</summary>
    Library,

    /// <summary>The operating system or the network.</summary>
    System,
}

/// <summary>
/// The one reason why a connection ended: the first cause wins. A value; nothing is formatted until somebody asks.
/// </summary>
/// <param name="Cause">Why.</param>
/// <param name="ErrorCode">The system's error number (errno on Linux), or 0.</param>
/// <param name="Exception">
/// What an override threw, with <see cref="CloseCause.UserException"/>; which rule the peer broke, with <see
/// cref="CloseCause.ProtocolError"/>; what reading said, with <see cref="CloseCause.FileFailed"/>; what was wrong,
/// with <see cref="CloseCause.SocketOption"/>; which phase, with <see cref="CloseCause.PhaseTimeout"/>; what the
/// look-up said, with <see cref="CloseCause.UnknownHost"/>;
/// and for a dial of several addresses an <see cref="AggregateException"/> with a <see cref="NetworkException"/> for each.
/// </param>
public readonly record struct CloseReason(CloseCause Cause, int ErrorCode = 0, Exception? Exception = null)
{
    // Both in one: each session and connection has room for a reason.
    private readonly long _cost;

    /// <summary>
    /// Bytes that sends had accepted and the system had not taken when the connection ended: they are lost. Complete
    /// in the last callback; 0 until then. What the system
    /// had taken and the peer has not read may be lost as well when the connection is reset; no system tells how much
    /// that is.
    /// </summary>
    public long BytesLost
    {
        get => _cost >> 1;
        init => _cost = (value << 1) | (_cost & 1);
    }

    /// <summary>
    /// This side reset the connection before its own end (FIN) had been sent: the peer sees an error where what was
    /// sent is cut off. Complete in the last callback. Not on Unix sockets, where a
    /// reset often looks like an end: see docs/limits.md.
    /// </summary>
    public bool WasReset
    {
        get => (_cost & 1) != 0;
        init => _cost = (_cost & ~1L) | (value ? 1L : 0);
    }

    /// <summary>Who ended it.</summary>
    public CloseInitiator Initiator => Cause switch
    {
        CloseCause.PeerClosed or CloseCause.PeerReset or CloseCause.Refused => CloseInitiator.Peer,
        CloseCause.SlowConsumer or CloseCause.UnreadLimit or CloseCause.IdleTimeout or CloseCause.ReceiveTimeout or CloseCause.SendTimeout or CloseCause.PhaseTimeout => CloseInitiator.Library,
        CloseCause.TlsHandshake or CloseCause.TlsBroken or CloseCause.TlsTruncated => TlsInitiator,
        CloseCause.ProtocolError => CloseInitiator.Library,
        CloseCause.UnknownHost or CloseCause.Unreachable or CloseCause.TimedOut or CloseCause.ResourceLimit or CloseCause.SystemError => CloseInitiator.System,
        _ => CloseInitiator.Local,
    };

    /// <summary>What kind of TLS failure it was; <see cref="Whimbrel.TlsFailure.None"/> when TLS did not end it.</summary>
    public TlsFailure TlsFailure => Cause is CloseCause.TlsHandshake or CloseCause.TlsBroken or CloseCause.TlsTruncated ? (Exception as TlsException)?.Failure ?? TlsFailure.LocalFault : TlsFailure.None;

    /// <summary>What was wrong with the peer's frames; <see cref="Whimbrel.FrameError.None"/> when that did not end
    /// it.</summary>
    public FrameError FrameError => Cause == CloseCause.ProtocolError ? (Exception as FrameException)?.Error ?? FrameError.None : FrameError.None;

    private CloseInitiator TlsInitiator => TlsFailure switch
    {
        TlsFailure.LocalFault => CloseInitiator.Local,
        TlsFailure.RefusedByPeer or TlsFailure.PeerLeft or TlsFailure.Truncated => CloseInitiator.Peer,
        _ => CloseInitiator.Library,
    };

    /// <summary>
    /// True for an end that both sides agreed on (closed, handed over, or stopped) and that lost nothing: no byte
    /// that was accepted was left unsent, and this side did not reset the connection
    /// in the middle, as a stop does at its deadline.
    /// </summary>
    public bool IsGraceful => HasRegularCause && !WasReset && BytesLost == 0;

    private bool HasRegularCause => Cause is CloseCause.LocalClose or CloseCause.PeerClosed or CloseCause.HandedOver or CloseCause.ServerStopped;

    /// <summary>Code, category and message of this end.</summary>
    public NetworkError Error => new(ErrorCode, Category, ToString());

    private ErrorCategory Category => Cause switch
    {
        CloseCause.UnknownHost => ErrorCategory.UnknownHost,
        CloseCause.Refused => ErrorCategory.Refused,
        CloseCause.Unreachable => ErrorCategory.Unreachable,
        CloseCause.TimedOut or CloseCause.IdleTimeout or CloseCause.ReceiveTimeout or CloseCause.SendTimeout or CloseCause.PhaseTimeout => ErrorCategory.Timeout,
        CloseCause.Cancelled => ErrorCategory.Cancelled,
        CloseCause.SlowConsumer or CloseCause.UnreadLimit or CloseCause.ResourceLimit => ErrorCategory.Limit,
        CloseCause.UserException => ErrorCategory.User,
        CloseCause.TlsHandshake or CloseCause.TlsBroken or CloseCause.TlsTruncated => TlsFailure == TlsFailure.TimedOut ? ErrorCategory.Timeout : ErrorCategory.Tls,
        CloseCause.ProtocolError => ErrorCategory.Protocol,
        CloseCause.SocketOption => (Exception as NetworkException)?.Error.Category ?? ErrorCategory.Option,
        CloseCause.PeerReset or CloseCause.SystemError or CloseCause.FileFailed => ErrorCategory.System,
        _ => ErrorCategory.None,
    };

    /// <summary>One sentence for a log, without a full stop: it stands inside of others.</summary>
    public override string ToString()
    {
        string text = Escaped.Of(Words());
        if (text.EndsWith('.') && !text.EndsWith("..", StringComparison.Ordinal)) text = text[..^1];
        if (WasReset && HasRegularCause) text += ", and reset before the end";
        return BytesLost == 0 ? text : $"{text}; {BytesLost:n0} accepted bytes were not sent";
    }

    private string Words()
    {
        // Its own words have the number already.
        if (Exception is TlsException tls) return tls.Message;
        if (Cause == CloseCause.SocketOption) return Exception?.Message ?? "a socket option was refused";
        string text = Cause switch
        {
            CloseCause.None => "still open",
            CloseCause.LocalClose => "closed by this side",
            CloseCause.LocalAbort => "aborted by this side",
            CloseCause.PeerClosed => "closed by the peer",
            CloseCause.PeerReset => "reset by the peer",
            CloseCause.SlowConsumer => "disconnected by SlowConsumer=Disconnect: the peer reads too slowly",
            CloseCause.UnreadLimit => "the session left more bytes unread than UnreadLimitBytes allows",
            CloseCause.UserException => Exception is null ? "user code threw" : $"user code threw {ErrorText.Of(Exception)}",
            CloseCause.Cancelled => "cancelled",
            CloseCause.HandedOver => "handed over to another session",
            CloseCause.ServerStopped => "the server stopped",
            CloseCause.EngineStopped => "the engine stopped",
            CloseCause.UnknownHost => Exception is null ? "the host name is unknown" : $"the host name is unknown: {Exception.Message}",
            CloseCause.IdleTimeout => "closed because nothing was sent or received for IdleTimeout",
            CloseCause.ReceiveTimeout => "closed because the peer sent nothing for ReceiveTimeout",
            CloseCause.SendTimeout => "aborted because the peer took nothing for SendTimeout",
            CloseCause.PhaseTimeout => Exception?.Message ?? "a phase took too long",
            CloseCause.Refused => "connection refused: nobody listens there",
            CloseCause.Unreachable => "the address cannot be reached",
            CloseCause.TimedOut => "timed out",
            CloseCause.TlsHandshake => "the TLS handshake failed",
            CloseCause.TlsBroken => "TLS ended the connection",
            CloseCause.TlsTruncated => "the peer's bytes ended without close_notify",
            CloseCause.FileFailed => Exception is null ? "a file could not be sent" : $"a file could not be sent: {Exception.Message}",
            CloseCause.ProtocolError => Exception is null ? "the peer broke the rules of the protocol" : $"the peer broke the rules of the protocol: {Exception.Message}",
            CloseCause.ResourceLimit => "no descriptor or memory left",
            _ => "system error",
        };
        return ErrorCode == 0 ? text : $"{text} (error {ErrorCode}: {ErrorText.Of(ErrorCode)})";
    }
}
