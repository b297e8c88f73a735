using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel.Clusters;

/// <summary>
/// What every bus does that has one connection to a broker, whatever is spoken there: it dials, again when the broker was lost, takes no more than the system takes in time, and says
/// what went wrong in words for people. On the bus's loop, but for what says otherwise.
/// </summary>
/// <param name="settings">Of the bus.</param>
/// <param name="make">What is spoken on a connection, for each of them.</param>
/// <param name="forget">The open connection has ended: nothing is subscribed any more.</param>
internal sealed class BrokerLink(BrokerSettings settings, Func<IBrokerProtocol> make, Action forget) : IAsyncDisposable
{
    /// <summary>So much waits for the system until <see cref="Publish"/> takes no more.</summary>
    internal const int PublishLimitBytes = 1 << 20;

    /// <summary>Largest envelope that a node may make: what is larger comes from nobody it knows.</summary>
    internal const int MostEnvelopeBytes = (16 << 20) + 1024;

    /// <summary>Above that: one more envelope, and subscriptions, which are asked for at once when a server is back.</summary>
    internal const int SendLimitBytes = PublishLimitBytes + (2 * MostEnvelopeBytes);

    private BrokerClient? _client;
    private IGroupBusListener? _listener;
    private string? _told;
    private volatile string? _wrong; // with the last connection or dial
    private volatile bool _isDisposed;
    private bool _isReached;

    internal BrokerSettings Settings => settings;

    /// <summary>The open connection, or null.</summary>
    internal BrokerSession? Session { get; private set; }

    /// <summary>The server that is reached, behind the name of its kind: <c>Redis 10.0.0.5:6379 (of redis://one:6379,two:6379)</c>.</summary>
    internal string Reached
    {
        get
        {
            if (Session?.RemoteEndPoint is not { } server) return settings.Description;
            int space = settings.Description.IndexOf(' ', StringComparison.Ordinal);
            return $"{settings.Description[..space]} {server} (of {settings.Description[(space + 1)..]})";
        }
    }

    /// <summary>Who is told; null when nobody is any more.</summary>
    internal IGroupBusListener? Listener => _isDisposed ? null : _listener;

    /// <summary>Any thread.</summary>
    internal async ValueTask StartAsync(Loop loop, IGroupBusListener listener, CancellationToken cancellationToken)
    {
        ArgumentNullException.ThrowIfNull(loop);
        ArgumentNullException.ThrowIfNull(listener);
        if (_client is not null || _isDisposed) throw new InvalidOperationException("A bus serves one node, and is started once.");
        _listener = listener;
        _client = new BrokerClient(
            new ClientOptions
            {
                EndPoints = settings.Servers,
                Tls = settings.Tls,
                Loop = loop,
                ConnectTimeout = settings.ConnectTimeout,
                Reconnect = settings.Reconnect,
                SlowConsumer = SlowConsumer.DropNewest,
                SendLimitBytes = SendLimitBytes,
                UnreadLimitBytes = MostEnvelopeBytes + settings.MostAroundEnvelope,
                DrainTimeout = TimeSpan.FromSeconds(1),
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
                // One dial tries all servers until one accepts. If that one does not serve, the next dial begins with the one after it.
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
        while (taken < messages.Length && session.BytesPending <= PublishLimitBytes && session.Publish(messages[taken])) taken++;
        return taken;
    }

    /// <summary>Any thread.</summary>
    public async ValueTask DisposeAsync()
    {
        _isDisposed = true;
        if (_client is { } client) await client.DisposeAsync().ConfigureAwait(false);
    }

    /// <summary>The broker does not do something that it was asked for, and goes on.</summary>
    internal void Refused(string what)
    {
        string text = $"{settings.Description} refuses: {what}";
        if (settings.OnTrouble is null) Session!.Note(text);
        else Tell(text);
    }

    // ------------------------------------------------------------------ from sessions and the client

    internal void Dialling() => _wrong = null;

    internal void Opened(BrokerSession session)
    {
        Session = session;
        _isReached = true;
        _told = null;
        _client!.NoteOpened(session);
        Listener?.OnConnected();
    }

    internal void Ending(BrokerSession session, string? wrong)
    {
        _wrong = wrong;
        if (!ReferenceEquals(session, Session)) return;
        Session = null;
        forget();
    }

    /// <summary>A connection or a dial has ended, and no disconnect asked for it.</summary>
    internal void Lost(CloseReason reason, string next)
    {
        if (_isDisposed) return;
        string why = _wrong ?? reason.ToString();
        if (_isReached) _listener!.OnLost($"{why}. {next}");
        else Tell($"{settings.Description} cannot be reached again: {why}.");
        _isReached = false;
    }

    /// <summary>Says what a person would look for. Any thread.</summary>
    internal NetworkException Explain(NetworkException failure)
    {
        if (_wrong is { } wrong) return new NetworkException(new NetworkError(0, ErrorCategory.Unreachable, $"{settings.Description} cannot be used: {wrong}."), failure);
        string hint = failure.Error.Category switch
        {
            ErrorCategory.Tls => $" Whom to trust is said by {settings.OptionsName}.Tls (Roots, HostName).",
            ErrorCategory.Refused => " Does the server run there?",
            ErrorCategory.UnknownHost => " See the address.",
            _ => "",
        };
        return new NetworkException(failure.Error with { Message = $"{settings.Description}: {failure.Error.Message}{hint}" }, failure);
    }

    private void Tell(string text)
    {
        if (_told == text) return;
        _told = text;
        if (settings.OnTrouble is not { } hook) return;
        string escaped = Escaped.Of(text); // a server's own words may be part of it
        Engine engine = Session?.Loop.Engine ?? Loop.Current?.Engine ?? Engine.Default;
        HookNet.Call(() => hook(escaped), e => engine.GetLoop(0).Post(() => throw new InvalidOperationException($"{nameof(settings.OnTrouble)} threw: {e.Message}", e)));
    }
}
