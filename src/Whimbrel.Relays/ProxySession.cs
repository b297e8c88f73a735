using System.Buffers;
using Whimbrel.Diagnostics;

namespace Whimbrel.Relays;

/// <summary>
/// The first session of a connection that comes through a proxy: reads the PROXY header, begins TLS when the options say so, and hands the connection over to the
/// session that its factory gives. From there on <see cref="Session.RemoteEndPoint"/> is the client's address and <see cref="Session.LocalEndPoint"/> the
/// one it had connected to, where the header has them. A peer that breaks a rule is reset, and <see cref="ProxyOptions.OnRefused"/> is called with the rule; without it a notice names it.
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

    /// <summary>For one connection.</summary>
    /// <param name="options">The same object for all connections.</param>
    /// <param name="next">
    /// Gives the session behind the header, on this session's thread, with TLS behind its handshake. Called at most once; null for a peer that is served without a
    /// header (<see cref="ProxyOptions.ServesUntrusted"/>). What it throws ends this connection (<see cref="CloseCause.UserException"/>).
    /// </param>
    public ProxySession(ProxyOptions options, Func<ProxyHeader?, Session> next)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(next);
        (_options, _next) = (options, next);
    }

    /// <summary>The header, once it was read.</summary>
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
    protected override int OnUnread(ReadOnlySpan<byte> unread)
    {
        if (!_isReading) return 0; // refused, or TLS has what is behind the header
        switch (ProxyHeader.Read(unread, out ProxyHeader? header, out int length, out ProxyFault fault, _options.HeaderLimitBytes))
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
    protected override void OnHandshaked(TlsInfo info) => HandOver(_next(Header));

    /// <inheritdoc/>
    protected override void OnPeerFinished()
    {
        if (_isReading) Refuse(ProxyFault.CutOff);
        else base.OnPeerFinished();
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
        if (fault != ProxyFault.Untrusted) NoteProtocolError(new InvalidDataException($"the PROXY header is refused ({nameof(ProxyFault)}.{fault})"));
        try
        {
            // tidy: allowed because a connection is refused, which is not the hot path
            if (_options.OnRefused is not { } hook) _options.NoteRefused(this, fault);
            else HookNet.Call(() => hook(this, fault), e => Loop.Post(() => throw new InvalidOperationException($"{nameof(ProxyOptions.OnRefused)} threw: {e.Message}", e)));
        }
        finally
        {
            Abort();
        }
    }
}
