using System.Buffers;
using Whimbrel.Diagnostics;

namespace Whimbrel.Relays;

/// <summary>
/// The first session of a connection through a proxy. Reads the PROXY header, starts TLS if configured, and hands the
/// connection over to a session from a factory. If the header has addresses, they replace
/// <see cref="Session.RemoteEndPoint"/> and <see cref="Session.LocalEndPoint"/>. A peer with an invalid header is
/// reset, and <see cref="ProxyOptions.OnRefused"/> is called; without it a diagnostic event is logged.
/// </summary>
/// <example><code>
/// ProxyOptions proxies = new() { Trusted = TrustedNetworks.Parse("10.0.0.0/8") };
/// await using Server server = new(options, () => new ProxySession(proxies, header => new Chat()));
/// </code></example>
public sealed class ProxySession : Session
{
    private readonly ProxyOptions _options;
    private readonly Func<ProxyHeader?, Session> _next;
    private bool _isReading;

    /// <summary>Creates the session of one connection.</summary>
    /// <param name="options">Options, the same object for all connections.</param>
    /// <param name="next">
    /// Factory of the next session. Called at most once, on this session's thread, after the header and the TLS
    /// handshake. Its argument is null for a peer without a header (<see cref="ProxyOptions.ServesUntrusted"/>). An
    /// exception ends this connection (<see cref="CloseCause.UserException"/>).
    /// </param>
    public ProxySession(ProxyOptions options, Func<ProxyHeader?, Session> next)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(next);
        (_options, _next) = (options, next);
    }

    /// <summary>The header, or null before it was read.</summary>
    public ProxyHeader? Header { get; private set; }

    /// <inheritdoc/>
    protected override void OnConnected()
    {
        if (_options.Trusted.Contains(RemoteEndPoint))
        {
            _isReading = true;
            BeginPhase(_options.Phase);
        }
        else if (_options.ServesUntrusted)
        {
            GoOn(null);
        }
        else
        {
            Refuse(ProxyFault.Untrusted);
        }
    }

    /// <inheritdoc/>
    protected override int OnData(ReadOnlySpan<byte> unread)
    {
        if (!_isReading) return 0; // rejected, or the bytes after the header belong to TLS
        switch (ProxyHeader.Read(unread, out ProxyHeader? header, out int length, out ProxyFault fault,
            _options.HeaderLimitBytes))
        {
            case OperationStatus.Done:
                EndPhase();
                ReplaceEndPoints(header!.Source, header.Destination);
                GoOn(header);
                return length;
            case OperationStatus.InvalidData:
                Refuse(fault);
                return 0;
            default:
                return 0;
        }
    }

    /// <inheritdoc/>
    protected override void OnTlsHandshakeCompleted(TlsInfo info) => HandOver(_next(Header));

    /// <inheritdoc/>
    protected override void OnEndOfStream()
    {
        if (_isReading) Refuse(ProxyFault.CutOff);
        else base.OnEndOfStream();
    }

    /// <inheritdoc/>
    protected override void OnTimeout(CloseReason reason)
    {
        if (_isReading) Refuse(ProxyFault.TimedOut);
        else base.OnTimeout(reason);
    }

    private void GoOn(ProxyHeader? header)
    {
        _isReading = false;
        Header = header;
        _options.Count(header);
        if (_options.Tls is { } tls) UpgradeToTls(tls, UnreadBytes.PassToTls);
        else HandOver(_next(header));
    }

    private void Refuse(ProxyFault fault)
    {
        _isReading = false;
        _options.CountRefused();
        if (fault != ProxyFault.Untrusted)
            ReportProtocolError(
                new InvalidDataException($"the PROXY header is refused ({nameof(ProxyFault)}.{fault})"));
        try
        {
            // tidy: allowed because a connection is refused, which is not the hot path
            if (_options.OnRefused is not { } hook) _options.NoteRefused(this, fault);
            else HookNet.Call(() => hook(this, fault), e => Loop.Post(
                () => throw new InvalidOperationException($"{nameof(ProxyOptions.OnRefused)} threw: {e.Message}", e)));
        }
        finally
        {
            Abort();
        }
    }
}
