using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>Subject of a <see cref="DiagnosticEvent"/>.</summary>
public enum DiagnosticEventKind
{
    /// <summary>A callback blocked a loop for longer than <see cref="EngineOptions.BlockedLoopMs"/>.</summary>
    BlockedLoop,

    /// <summary>A connection was ended because its peer reads too slowly.</summary>
    SlowConsumer,

    /// <summary>
    /// Accepting reached the descriptor limit; new connections are closed until descriptors are free again.
    /// </summary>
    DescriptorLimit,

    /// <summary>A callback that belongs to no session threw.</summary>
    UserException,

    /// <summary>The system rejected an operation that the library can do without.</summary>
    System,

    /// <summary>A TLS handshake of a server failed.</summary>
    TlsHandshake,

    /// <summary>A certificate has expired, or its changed file could not be loaded.</summary>
    Certificate,

    /// <summary>A stop has passed its deadline, and user code still runs.</summary>
    StopOverdue,

    /// <summary>
    /// Sends of other threads were rejected because of <see cref="EngineOptions.MailboxLimitBytes"/>.
    /// </summary>
    MailboxFull,

    /// <summary>A target of a relay has failed or recovered.</summary>
    RelayTarget,

    /// <summary>
    /// A broadcast was larger than a member's send limit and skipped that member; or a session left so much data
    /// unconsumed that <see cref="ConnectionLimits.UnreadBytes"/> ended its connection.
    /// </summary>
    MessageTooLarge,

    /// <summary>
    /// A peer uses another protocol or format than its session, or a session violates its own protocol.
    /// </summary>
    Protocol,

    /// <summary>Nodes of a cluster are incompatible: different keys, or the same id twice.</summary>
    Cluster,

    /// <summary>
    /// A new process has not taken the sockets over, or an old one has not released them
    /// (<see cref="ProcessUpgrade"/>).
    /// </summary>
    Upgrade,

    /// <summary>
    /// An action of a dashboard (its audit line), or a request to a dashboard that was rejected.
    /// </summary>
    Dashboard,
}

/// <summary>
/// A message for the operator about something that ends nothing by itself. Also written to the event source
/// <c>Whimbrel</c>. Diagnostic events of one kind are given at most once a minute for each loop, or for each server and
/// client.
/// </summary>
/// <param name="Kind">Subject of the diagnostic event.</param>
/// <param name="Message">Event, reason and remedy, in one line. Control characters of external values are escaped
/// (<c>\n</c>, <c>\u001b</c>).</param>
/// <param name="Page">Page below <c>docs/symptoms/</c>.</param>
/// <param name="Exception">Exception that the diagnostic event is about, with its stack trace, or null. Its own texts
/// are not escaped.</param>
public readonly record struct DiagnosticEvent(DiagnosticEventKind Kind, string Message, string Page,
    Exception? Exception = null)
{
    /// <summary>Event, reason and remedy, in one line without control characters.</summary>
    public string Message { get; init => field = Escaped.Of(value); } = Escaped.Of(Message);

    /// <summary>
    /// Sentence that refers to the documentation, such as <c>See docs/symptoms/port-taken.md, or: whimbrel explain
    /// port-taken</c>.
    /// </summary>
    public string Help => $"See docs/symptoms/{Page}, or: whimbrel explain {Path.GetFileNameWithoutExtension(Page)}";

    /// <summary>Returns the message.</summary>
    public override string ToString() => Message;
}
