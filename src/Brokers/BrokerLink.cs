using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel.Clusters;

/// <summary>
/// Common part of buses with one connection to a broker, independent of the protocol: connects, reconnects, limits
/// queued bytes, and explains failures. On the bus's loop unless noted otherwise.
/// </summary>
/// <param name="settings">Settings of the bus.</param>
/// <param name="make">Factory of the protocol of a connection.</param>
/// <param name="forget">Called when the open connection, and with it all subscriptions, have ended.</param>
internal sealed class BrokerLink(BrokerSettings settings, Func<IBrokerProtocol> make, Action forget) : IAsyncDisposable
{
    /// <summary>Number of unsent bytes above which <see cref="Publish"/> accepts no more.</summary>
    internal const int PublishLimitBytes = 1 << 20;

    /// <summary>Largest envelope of a node, in bytes. A larger one is foreign.</summary>
    internal const int MostEnvelopeBytes = (16 << 20) + 1024;

    /// <summary>
    /// Send limit: room for one more envelope, and for all subscriptions, which are sent at once after a reconnect.
    /// </summary>
    internal const int SendLimitBytes = PublishLimitBytes + (2 * MostEnvelopeBytes);

    private BrokerClient? _client;
    private IGroupBusListener? _listener;
    private string? _told;
    private volatile string? _wrong; // reason why the last connection or connect failed
    private volatile bool _isDisposed;
    private bool _isReached;

    internal BrokerSettings Settings => settings;

    /// <summary>The open connection, or null.</summary>
    internal BrokerSession? Session { get; private set; }

    /// <summary>Product name and connected server: <c>Redis 10.0.0.5:6379 (of redis://one:6379,two:6379)</c>.</summary>
    internal string Reached
    {
        get
        {
            if (Session?.RemoteEndPoint is not { } server) return settings.Description;
            int space = settings.Description.IndexOf(' ', StringComparison.Ordinal);
            return $"{settings.Description[..space]} {server} (of {settings.Description[(space + 1)..]})";
        }
    }

    /// <summary>Listener of the bus; null after disposal.</summary>
    internal IGroupBusListener? Listener => _isDisposed ? null : _listener;

    /// <summary>Any thread.</summary>
    internal async ValueTask StartAsync(Loop loop, IGroupBusListener listener, CancellationToken cancellationToken)
    {
        ArgumentNullException.ThrowIfNull(loop);
        ArgumentNullException.ThrowIfNull(listener);
        if (_client is not null || _isDisposed)
            throw new InvalidOperationException("A bus serves one node, and is started once.");
        _listener = listener;
        _client = new BrokerClient(
            new ClientOptions
            {
                EndPoints = settings.Servers,
                Tls = settings.Tls,
                Loop = loop,
                Timeouts = new() { Connect = settings.ConnectTimeout, Drain = TimeSpan.FromSeconds(1) },
                Reconnect = settings.Reconnect,
                Limits = new()
                {
                    SlowConsumer = SlowConsumer.DropNewest,
                    SendBytes = SendLimitBytes,
                    UnreadBytes = MostEnvelopeBytes + settings.MostAroundEnvelope,
                },
            },
            this,
            () => new BrokerSession(this, make()));
        NetworkException? first = null;
        for (int left = settings.Servers.Count; ; left--)
        {
            try
            {
                await _client.ConnectAsync(cancellationToken).ConfigureAwait(false);
                return;
            }
            catch (NetworkException e)
            {
                // One connect tries all servers until one accepts. If that one cannot be used, the next connect begins
                // with its successor.
                first ??= e;
                bool hasAccepted = _wrong is not null || e.Error.Category == ErrorCategory.Tls;
                if (left == 1 || !hasAccepted) throw first;
            }
        }
    }

    internal int Publish(ReadOnlySpan<BusMessage> messages)
    {
        if (Session is not { } session) return 0;
        int taken = 0;
        while (taken < messages.Length && session.BytesPending <= PublishLimitBytes && session.Publish(messages[taken]))
            taken++;
        return taken;
    }

    /// <summary>Any thread.</summary>
    public async ValueTask DisposeAsync()
    {
        _isDisposed = true;
        if (_client is { } client) await client.DisposeAsync().ConfigureAwait(false);
    }

    /// <summary>Reports a request that the broker rejected without ending the connection.</summary>
    internal void Refused(string what)
    {
        string text = $"{settings.Description} refuses: {what}";
        if (settings.OnTrouble is null) Session!.Report(text);
        else Tell(text);
    }

    // ------------------------------------------------------------------ from sessions and the client

    internal void Connecting() => _wrong = null;

    internal void Opened(BrokerSession session)
    {
        Session = session;
        _isReached = true;
        _told = null;
        _client!.ReportOpened(session);
        Listener?.OnConnected();
    }

    internal void Ending(BrokerSession session, string? wrong)
    {
        _wrong = wrong;
        if (!ReferenceEquals(session, Session)) return;
        Session = null;
        forget();
    }

    /// <summary>Handles the end of a connection or connect that was not requested.</summary>
    internal void Lost(CloseReason reason, string next)
    {
        if (_isDisposed) return;
        string why = _wrong ?? reason.ToString();
        if (_isReached) _listener!.OnLost($"{why}. {next}");
        else Tell($"{settings.Description} cannot be reached again: {why}.");
        _isReached = false;
    }

    /// <summary>Returns the failure with its explanation. Any thread.</summary>
    internal NetworkException Explain(NetworkException failure)
    {
        if (_wrong is { } wrong)
            return new NetworkException(new NetworkError(0, ErrorCategory.Unreachable,
                $"{settings.Description} cannot be used: {wrong}."), failure);
        string hint = failure.Error.Category switch
        {
            ErrorCategory.Tls => $" Trusted authorities are set by {settings.OptionsName}.Tls (Roots, HostName).",
            ErrorCategory.Refused => " Does the server run there?",
            ErrorCategory.UnknownHost => " See the address.",
            _ => "",
        };
        return new NetworkException(
            failure.Error with { Message = $"{settings.Description}: {failure.Error.Message}{hint}" }, failure);
    }

    private void Tell(string text)
    {
        if (_told == text) return;
        _told = text;
        if (settings.OnTrouble is not { } hook) return;
        string escaped = Escaped.Of(text); // it may contain text of the server
        Engine engine = Session?.Loop.Engine ?? Loop.Current?.Engine ?? Engine.Default;
        HookNet.Call(() => hook(escaped), e => engine.GetLoop(0)
            .Post(() => throw new InvalidOperationException($"{nameof(settings.OnTrouble)} threw: {e.Message}", e)));
    }
}
