using Whimbrel.Diagnostics;

namespace Whimbrel.Relays;

/// <summary>Options for reading PROXY headers. One object serves all connections of a server; thread-safe.</summary>
public sealed class ProxyOptions
{
    private readonly int _headerLimitBytes = ProxyHeader.DefaultLimit;
    private readonly TimeSpan _headerTimeout = TimeSpan.FromSeconds(5);
    private NoticePace _notices;
    private long _read, _local, _direct, _refused;

    /// <summary>Networks of the proxies. Required, because a trusted peer can claim any client address.</summary>
    /// <exception cref="ArgumentNullException">Null.</exception>
    public required TrustedNetworks Trusted
    {
        get;
        init => field = value ?? throw new ArgumentNullException(nameof(Trusted));
    }

    /// <summary>
    /// Whether untrusted peers are served as clients. False (the default): they are reset before a byte is read. True:
    /// a header that they send is passed to the application's protocol. A trusted peer must always send a header.
    /// </summary>
    public bool ServesUntrusted { get; init; }

    /// <summary>
    /// Maximum length of a header of version 2 with its extensions, in bytes. 16 to 65,551; the default is 4,096.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">The value is outside this range.</exception>
    public int HeaderLimitBytes
    {
        get => _headerLimitBytes;
        init => _headerLimitBytes = value is >= ProxyBinary.HeadLength and <= ProxyHeader.MaxLength
            ? value : throw new ArgumentOutOfRangeException(nameof(value), value,
                $"{ProxyBinary.HeadLength} to {ProxyHeader.MaxLength}");
    }

    /// <summary>Time limit for receiving the whole header. 10 ms to 7 days; the default is 5 s.</summary>
    /// <exception cref="ArgumentOutOfRangeException">The value is outside this range.</exception>
    public TimeSpan HeaderTimeout
    {
        get => _headerTimeout;
        init
        {
            _headerTimeout = value;
            Phase = new SessionPhase("the PROXY header", value);
        }
    }

    /// <summary>
    /// Server-side TLS for connections of clients through the proxy. The handshake starts after the header, with the
    /// bytes received with it. Null (the default): no TLS; the next session receives the bytes unchanged.
    /// </summary>
    public TlsOptions? Tls { get; init; }

    /// <summary>
    /// Called for each rejected connection with the reason, on its session's thread, before the reset. An exception is
    /// handled as one of the session. Null (the default): a diagnostic event of kind
    /// <see cref="DiagnosticEventKind.Protocol"/>, at most once a minute.
    /// </summary>
    public Action<ProxySession, ProxyFault>? OnRefused { get; init; }

    internal SessionPhase Phase { get; private init; } = new("the PROXY header", TimeSpan.FromSeconds(5));

    /// <summary>Reads the counters of all servers with these options.</summary>
    public ProxyCounters ReadCounters() => new(Volatile.Read(ref _read), Volatile.Read(ref _local),
        Volatile.Read(ref _direct), Volatile.Read(ref _refused));

    internal void Count(ProxyHeader? header)
    {
        if (header is null) Interlocked.Increment(ref _direct);
        else if (header.IsLocal) Interlocked.Increment(ref _local);
        else Interlocked.Increment(ref _read);
    }

    internal void NoteRefused(Session session, ProxyFault fault)
    {
        if (session.Server is not { } server || !_notices.TryTake(session.Loop.TimeMs)) return;
        string text = fault == ProxyFault.Untrusted
            ? $"{session.RemoteEndPoint} was reset, because it is in no network of ProxyOptions.Trusted. If it is a "
                + $"proxy, add its network; if clients may connect without a proxy, set ServesUntrusted"
            : $"{session.RemoteEndPoint} was reset, because its PROXY header is refused (ProxyFault.{fault}). "
                + $"A trusted peer must send a header first: turn it on in the proxy, or take the peer out of "
                + $"ProxyOptions.Trusted";
        server.Report(new DiagnosticEvent(DiagnosticEventKind.Protocol,
            $"{text}. Set OnRefused to get each refusal; all are counted (ProxyCounters.Refused).",
            "protocol-mismatch.md"));
    }

    internal void CountRefused() => Interlocked.Increment(ref _refused);
}
