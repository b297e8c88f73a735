using System.Net.Sockets;
using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>Cause of the end of a connection or a connect attempt.</summary>
public enum CloseCause
{
    /// <summary>The connection has not ended.</summary>
    None,

    /// <summary>This side called <c>Close</c> or shut down its sending side, and the peer followed.</summary>
    LocalClose,

    /// <summary>This side called <c>Abort</c>.</summary>
    LocalAbort,

    /// <summary>The peer shut down its sending side (FIN), and this side then closed.</summary>
    PeerClosed,

    /// <summary>
    /// The peer or the network reset the connection, or the peer did not exist any more when this side sent.
    /// </summary>
    PeerReset,

    /// <summary>The send queue exceeded its limit under <see cref="SlowConsumer.Disconnect"/>.</summary>
    SlowConsumer,

    /// <summary>
    /// The session left more bytes unconsumed than <see cref="ConnectionLimits.UnreadBytes"/> and consumed none.
    /// </summary>
    UnreadLimit,

    /// <summary>An override of the session, or the factory, threw.</summary>
    UserException,

    /// <summary>A <c>SendAsync</c> was cancelled after its first part, or a connect was cancelled.</summary>
    Cancelled,

    /// <summary>The connection continues with another session (<c>HandOver</c>).</summary>
    HandedOver,

    /// <summary>The server stopped.</summary>
    ServerStopped,

    /// <summary>The engine was disposed.</summary>
    EngineStopped,

    /// <summary>The host name has no address, or could not be resolved.</summary>
    UnknownHost,

    /// <summary>No byte was sent or received for <see cref="ConnectionTimeouts.Idle"/>.</summary>
    IdleTimeout,

    /// <summary>No socket listens at the address.</summary>
    Refused,

    /// <summary>There is no route to the address, or the address cannot be used on this machine.</summary>
    Unreachable,

    /// <summary>The connect took longer than allowed, or the peer stopped answering.</summary>
    TimedOut,

    /// <summary>The process or the system has no descriptor, memory or slot left.</summary>
    ResourceLimit,

    /// <summary>Any other system error; <see cref="CloseReason.ErrorCode"/> has its number.</summary>
    SystemError,

    /// <summary>
    /// The socket of a connect could not be prepared: the system rejected an option, or
    /// <see cref="ConnectionSocketOptions.OnCreated"/> threw. <see cref="CloseReason.Exception"/> has the details.
    /// </summary>
    SocketOption,

    /// <summary>
    /// The TLS handshake failed. <see cref="CloseReason.Exception"/> is a <see cref="TlsException"/> with the reason.
    /// </summary>
    TlsHandshake,

    /// <summary>
    /// TLS ended a connection after its handshake: an invalid record, an alert, a flood.
    /// <see cref="CloseReason.Exception"/> is a <see cref="TlsException"/> with the reason.
    /// </summary>
    TlsBroken,

    /// <summary>
    /// The peer's data ended without TLS's close_notify, so it may have been truncated by an attacker.
    /// </summary>
    TlsTruncated,

    /// <summary>
    /// The peer sent nothing for <see cref="ConnectionTimeouts.Receive"/> while the connection was read.
    /// </summary>
    ReceiveTimeout,

    /// <summary>The peer accepted no queued data for <see cref="ConnectionTimeouts.Send"/>.</summary>
    SendTimeout,

    /// <summary>
    /// A phase of the session's protocol took too long (<see cref="SessionPhase"/>).
    /// <see cref="CloseReason.Exception"/> is a <see cref="TimeoutException"/> that names it.
    /// </summary>
    PhaseTimeout,

    /// <summary>
    /// A file was shorter than the part to send, or could not be read. <see cref="CloseReason.Exception"/> has the
    /// details.
    /// </summary>
    FileFailed,

    /// <summary>
    /// The peer violated the session's protocol, and this side ended the connection for that.
    /// <see cref="CloseReason.Exception"/> has the details; for frames it is a <see cref="FrameException"/>. Also used
    /// if a server does not accept the WebSocket that a client requested.
    /// </summary>
    ProtocolError,
}

/// <summary>The side that was the first to end a connection.</summary>
public enum CloseInitiator
{
    /// <summary>Code on this side.</summary>
    Local,

    /// <summary>The other end.</summary>
    Peer,

    /// <summary>The library, because a limit was reached or a rule was violated.</summary>
    Library,

    /// <summary>The operating system or the network.</summary>
    System,
}

/// <summary>
/// The reason why a connection ended; only the first cause counts. A value; its text is formatted on demand only.
/// </summary>
/// <param name="Cause">Cause of the end.</param>
/// <param name="ErrorCode">Error number of the system (errno on Linux), or 0.</param>
/// <param name="Exception">Details by cause: the exception of an override (<see cref="CloseCause.UserException"/>), the
/// violated rule (<see cref="CloseCause.ProtocolError"/>), the read error (<see cref="CloseCause.FileFailed"/>), the
/// option (<see cref="CloseCause.SocketOption"/>), the phase (<see cref="CloseCause.PhaseTimeout"/>), the resolver's
/// error (<see cref="CloseCause.UnknownHost"/>). For a connect with several addresses it is an
/// <see cref="AggregateException"/> with a <see cref="NetworkException"/> for each.</param>
public readonly record struct CloseReason(CloseCause Cause, int ErrorCode = 0, Exception? Exception = null)
{
    // Both values in one field, because each session and connection has a reason.
    private readonly long _cost;

    /// <summary>
    /// Number of bytes that sends had accepted and the kernel had not, when the connection ended: they are lost.
    /// Complete in the last callback; 0 until then. On a reset, data that the kernel has accepted and the peer has not
    /// read may also be lost; no system reports how much.
    /// </summary>
    public long BytesLost
    {
        get => _cost >> 1;
        init => _cost = (value << 1) | (_cost & 1);
    }

    /// <summary>
    /// True if this side reset the connection before its FIN was sent: the peer then gets an error at the point where
    /// the data is truncated. Complete in the last callback. Not on Unix sockets, where a reset often looks like a
    /// normal end: see docs/limits.md.
    /// </summary>
    public bool WasReset
    {
        get => (_cost & 1) != 0;
        init => _cost = (_cost & ~1L) | (value ? 1L : 0);
    }

    /// <summary>The side that ended the connection.</summary>
    public CloseInitiator Initiator => Cause switch
    {
        CloseCause.PeerClosed or CloseCause.PeerReset or CloseCause.Refused => CloseInitiator.Peer,
        CloseCause.SlowConsumer or CloseCause.UnreadLimit or CloseCause.IdleTimeout or CloseCause.ReceiveTimeout
        or CloseCause.SendTimeout or CloseCause.PhaseTimeout => CloseInitiator.Library,
        CloseCause.TlsHandshake or CloseCause.TlsBroken or CloseCause.TlsTruncated => TlsInitiator,
        CloseCause.ProtocolError => CloseInitiator.Library,
        CloseCause.UnknownHost or CloseCause.Unreachable or CloseCause.TimedOut or CloseCause.ResourceLimit
        or CloseCause.SystemError => CloseInitiator.System,
        _ => CloseInitiator.Local,
    };

    /// <summary>
    /// Kind of the TLS failure; <see cref="Whimbrel.TlsFailure.None"/> if TLS did not end the connection.
    /// </summary>
    public TlsFailure TlsFailure => Cause is CloseCause.TlsHandshake or CloseCause.TlsBroken or CloseCause.TlsTruncated
        ? (Exception as TlsException)?.Failure ?? TlsFailure.LocalFault
        : TlsFailure.None;

    /// <summary>
    /// Error in the peer's frames; <see cref="Whimbrel.FrameError.None"/> if that did not end the connection.
    /// </summary>
    public FrameError FrameError =>
        Cause == CloseCause.ProtocolError ? (Exception as FrameException)?.Error ?? FrameError.None : FrameError.None;

    private CloseInitiator TlsInitiator => TlsFailure switch
    {
        TlsFailure.LocalFault or TlsFailure.Validated => CloseInitiator.Local,
        TlsFailure.RefusedByPeer or TlsFailure.PeerLeft or TlsFailure.Truncated => CloseInitiator.Peer,
        _ => CloseInitiator.Library,
    };

    /// <summary>
    /// True for an end that both sides agreed on (closed, handed over, or stopped) and that lost nothing: all accepted
    /// bytes were sent. An end with a reset by this side, such as a stop at its deadline, is not graceful.
    /// </summary>
    public bool IsGraceful => HasRegularCause && !WasReset && BytesLost == 0;

    private bool HasRegularCause =>
        Cause is CloseCause.LocalClose or CloseCause.PeerClosed or CloseCause.HandedOver or CloseCause.ServerStopped;

    /// <summary>Code, category and message of this end.</summary>
    public NetworkError Error => new(ErrorCode, Category, ToString());

    private ErrorCategory Category => Cause switch
    {
        CloseCause.UnknownHost => ErrorCategory.UnknownHost,
        CloseCause.Refused => ErrorCategory.Refused,
        CloseCause.Unreachable => ErrorCategory.Unreachable,
        CloseCause.TimedOut or CloseCause.IdleTimeout or CloseCause.ReceiveTimeout or CloseCause.SendTimeout
        or CloseCause.PhaseTimeout => ErrorCategory.Timeout,
        CloseCause.Cancelled => ErrorCategory.Cancelled,
        CloseCause.SlowConsumer or CloseCause.UnreadLimit or CloseCause.ResourceLimit => ErrorCategory.Limit,
        CloseCause.UserException => ErrorCategory.User,
        CloseCause.TlsHandshake or CloseCause.TlsBroken or CloseCause.TlsTruncated =>
            TlsFailure == TlsFailure.TimedOut ? ErrorCategory.Timeout : ErrorCategory.Tls,
        CloseCause.ProtocolError => ErrorCategory.Protocol,
        CloseCause.SocketOption => (Exception as NetworkException)?.Error.Category ?? ErrorCategory.Option,
        CloseCause.PeerReset or CloseCause.SystemError or CloseCause.FileFailed => ErrorCategory.System,
        _ => ErrorCategory.None,
    };

    /// <summary>Returns one sentence for a log, without a full stop, because other sentences contain it.</summary>
    public override string ToString()
    {
        string text = Escaped.Of(Words());
        if (text.EndsWith('.') && !text.EndsWith("..", StringComparison.Ordinal)) text = text[..^1];
        if (WasReset && HasRegularCause) text += ", and reset before the end";
        return BytesLost == 0 ? text : $"{text}; {BytesLost:n0} accepted bytes were not sent";
    }

    private string Words()
    {
        // The message of the exception contains the number already.
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
            CloseCause.UnreadLimit => "the session left more bytes unread than Limits.UnreadBytes allows",
            CloseCause.UserException =>
                Exception is null ? "user code threw" : $"user code threw {ErrorText.Of(Exception)}",
            CloseCause.Cancelled => "cancelled",
            CloseCause.HandedOver => "handed over to another session",
            CloseCause.ServerStopped => "the server stopped",
            CloseCause.EngineStopped => "the engine stopped",
            CloseCause.UnknownHost =>
                Exception is null ? "the host name is unknown" : $"the host name is unknown: {Exception.Message}",
            CloseCause.IdleTimeout => "closed because nothing was sent or received for IdleTimeout",
            CloseCause.ReceiveTimeout => "closed because the peer sent nothing for ReceiveTimeout",
            CloseCause.SendTimeout => "aborted because the peer took nothing for SendTimeout",
            CloseCause.PhaseTimeout => Exception?.Message ?? "a phase took too long",
            CloseCause.Refused => "connection refused: no socket listens there",
            CloseCause.Unreachable => "the address cannot be reached",
            CloseCause.TimedOut => "timed out",
            CloseCause.TlsHandshake => "the TLS handshake failed",
            CloseCause.TlsBroken => "TLS ended the connection",
            CloseCause.TlsTruncated => "the peer's bytes ended without close_notify",
            CloseCause.FileFailed =>
                Exception is null ? "a file could not be sent" : $"a file could not be sent: {Exception.Message}",
            CloseCause.ProtocolError => Exception is null
                ? "the peer broke the rules of the protocol"
                : $"the peer broke the rules of the protocol: {Exception.Message}",
            CloseCause.ResourceLimit => "no descriptor or memory left",
            _ => "system error",
        };
        return ErrorCode == 0 ? text : $"{text} (error {ErrorCode}: {ErrorText.Of(ErrorCode)})";
    }
}
