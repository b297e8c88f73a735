using Whimbrel.Diagnostics;

namespace Whimbrel.Relays;

/// <summary>How a server reads PROXY headers. Made once for all its connections; any thread.</summary>
public sealed class ProxyOptions
{
    private readonly int _headerLimitBytes = ProxyHeader.DefaultLimit;
    private readonly TimeSpan _headerTimeout = TimeSpan.FromSeconds(5);
    private NoticePace _notices;
    private long _read, _local, _direct, _refused;

    /// <summary>Whose headers are believed. Required: who may reach the port and is believed can claim to be anybody.</summary>
    /// <exception cref="ArgumentNullException">Null.</exception>
    public required TrustedNetworks Trusted { get; init => field = value ?? throw new ArgumentNullException(nameof(Trusted)); }

    /// <summary>
    /// What happens to peers that are not trusted. False (the default): refused before a byte is read. True: they are served as clients of their own,
    /// and a header that they send reaches the protocol as what it is there, a mistake. A trusted peer always has to send a header.
    /// </summary>
    public bool ServesUntrusted { get; init; }

    /// <summary>The most bytes of a header of version 2, extensions included. 16 to 65,551; the default is 4,096.</summary>
    /// <exception cref="ArgumentOutOfRangeException">Outside of that.</exception>
    public int HeaderLimitBytes
    {
        get => _headerLimitBytes;
        init => _headerLimitBytes = value is >= ProxyBinary.HeadLength and <= ProxyHeader.MaxLength
            ? value : throw new ArgumentOutOfRangeException(nameof(value), value, $"{ProxyBinary.HeadLength} to {ProxyHeader.MaxLength}");
    }

    /// <summary>How long the whole header may take. 10 ms to 7 days; the default is 5 s.</summary>
    /// <exception cref="ArgumentOutOfRangeException">Outside of that.</exception>
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
    /// TLS that the client speaks through the proxy: begins behind the header, with whatever came along with it. Null (the default): the session behind the
    /// header gets the bytes as they are.
    /// </summary>
    public TlsOptions? Tls { get; init; }

    /// <summary>Called for each connection that is refused, with the rule, on its session's thread, right before the reset. What it throws is the session's. Null (the default): a notice of kind <see cref="NoticeKind.Protocol"/>, at most once a minute.</summary>
    public Action<ProxySession, ProxyFault>? OnRefused { get; init; }

    internal SessionPhase Phase { get; private init; } = new("the PROXY header", TimeSpan.FromSeconds(5));

    /// <summary>What became of the connections of all servers with these options.</summary>
    public ProxyCounters ReadCounters() => new(Volatile.Read(ref _read), Volatile.Read(ref _local), Volatile.Read(ref _direct), Volatile.Read(ref _refused));

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
            ? $"{session.RemoteEndPoint} was reset, because it is in no network of ProxyOptions.Trusted. If it is a proxy, add its network; if clients may connect without a proxy, set ServesUntrusted"
            : $"{session.RemoteEndPoint} was reset, because its PROXY header is refused (ProxyFault.{fault}). A trusted peer must send a header first: turn it on in the proxy, or take the peer out of ProxyOptions.Trusted";
        server.Note(new Notice(NoticeKind.Protocol, $"{text}. Set OnRefused to get each refusal; all are counted (ProxyCounters.Refused).", "protocol-mismatch.md"));
    }

    internal void CountRefused() => Interlocked.Increment(ref _refused);
}
