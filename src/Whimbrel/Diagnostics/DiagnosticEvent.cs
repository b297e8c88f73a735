using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>What a <see cref="DiagnosticEvent"/> is about.</summary>
public enum DiagnosticEventKind
{
    /// <summary>A callback kept a loop busy for longer than <see cref="EngineOptions.BlockedLoopMs"/>.</summary>
    BlockedLoop,

    /// <summary>A connection was ended because its peer reads too slowly.</summary>
    SlowConsumer,

    /// <summary>Accepting met the descriptor limit; new connections are shed until descriptors are free again.</summary>
    DescriptorLimit,

    /// <summary>A callback that has no session to end threw.</summary>
    UserException,

    /// <summary>The system refused something that the library goes on without.</summary>
    System,

    /// <summary>A TLS handshake of a server failed.</summary>
    TlsHandshake,

    /// <summary>A certificate has expired, or its changed file could not be loaded.</summary>
    Certificate,

    /// <summary>A stop has passed its deadline, and user code still runs.</summary>
    StopOverdue,

    /// <summary>Sends of other threads were refused because of <see cref="EngineOptions.MailboxLimitBytes"/>.</summary>
    MailboxFull,

    /// <summary>A target of a relay has failed, or serves again.</summary>
    RelayTarget,

    /// <summary>
    /// A broadcast was larger than the send queue of a member may ever be, and that member went without it; or a session
    /// left so much unread that <see cref="ConnectionOptions.UnreadLimitBytes"/> ended its connection.
    /// </summary>
    MessageTooLarge,

    /// <summary>A peer uses another protocol or another format than its session, or a session does not do what its protocol requires.</summary>
    Protocol,

    /// <summary>Nodes of a cluster do not fit together: another key, or the same id twice.</summary>
    Cluster,
}

/// <summary>
/// Something that an operator should know and that ends nothing by itself. Also written to the event source
/// <c>Whimbrel</c>. Notices of one kind are given at most once a minute: for each loop, or for each server and client.
/// </summary>
/// <param name="Kind">What it is about.</param>
/// <param name="Message">What happened, why, and what to do: one line. Control characters of foreign values are escaped (<c>\n</c>, <c>\u001b</c>).</param>
/// <param name="Page">Its page below <c>docs/symptoms/</c>.</param>
/// <param name="Exception">
/// The exception that the notice is about, with its stack trace; null when there is none. Its own texts are as they were thrown, and not escaped.
/// </param>
public readonly record struct DiagnosticEvent(DiagnosticEventKind Kind, string Message, string Page, Exception? Exception = null)
{
    /// <summary>What happened, why, and what to do: one line, without control characters.</summary>
    public string Message { get; init => field = Escaped.Of(value); } = Escaped.Of(Message);

    /// <summary>The sentence that says where to read more, as <c>See docs/symptoms/port-taken.md, or: whimbrel explain port-taken</c>.</summary>
    public string Help => $"See docs/symptoms/{Page}, or: whimbrel explain {Path.GetFileNameWithoutExtension(Page)}";

    /// <summary>The message.</summary>
    public override string ToString() => Message;
}
