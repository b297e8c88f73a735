using System.Runtime.InteropServices;
using RabbitMQ.Client;
using Whimbrel.Engines;
using AmqpConnection = RabbitMQ.Client.IConnection;

namespace Whimbrel.Clusters;

/// <summary>
/// Bus over a RabbitMQ server, 3.8 or later, by its official client, with at-most-once delivery. Each node has one
/// connection and one exclusive queue, bound to one exchange by the names of groups. Reconnects automatically. The
/// client has its own sockets and threads; envelopes are passed to the node's loop. Recoverable groups are not
/// supported.
/// </summary>
public sealed class RabbitMqBus : IGroupBus
{
    /// <summary>Largest envelope of a node, in bytes.</summary>
    internal const int MostEnvelopeBytes = (16 << 20) + 1024;

    // by key; on the loop, as the next two
    private readonly Dictionary<string, Subscription> _subscriptions = new(StringComparer.Ordinal);
    private RabbitMqLink? _link;
    private bool _isReached;
    private readonly CancellationTokenSource _stop = new();
    private readonly CancellationToken _stopped; // usable after its source is disposed
    private readonly RabbitMqOptions _options;
    private readonly ConnectionFactory _factory;
    private readonly AmqpTcpEndpoint[] _servers;
    private IGroupBusListener? _listener;
    private Loop? _loop;
    private Task? _running;
    private int _isDisposed;
    private string? _told;

    /// <summary>Creates a bus. It connects when a node joins with it.</summary>
    /// <param name="address">
    /// Address: <c>amqp://host:5672</c>, with <c>user:password@</c> before the host unless the user is <c>guest</c>.
    /// Several servers are separated by commas and tried in this order; a virtual host follows the last:
    /// <c>amqp://one,two/chat</c>. <c>amqps://</c> enables TLS, on port 5671.
    /// </param>
    /// <param name="options">Options, or null for the defaults.</param>
    /// <exception cref="ArgumentException">The address is invalid, or an option is out of its range.</exception>
    public RabbitMqBus(string address, RabbitMqOptions? options = null)
    {
        _stopped = _stop.Token;
        RabbitMqAddress parsed = RabbitMqAddress.Parse(address);
        _options = options ?? new RabbitMqOptions();
        _options.Check();
        Description = $"RabbitMQ {parsed.Text}";
        _factory = new ConnectionFactory
        {
            UserName = _options.User ?? parsed.User ?? ConnectionFactory.DefaultUser,
            Password = _options.Password ?? parsed.Password ?? ConnectionFactory.DefaultPass,
            VirtualHost = parsed.VirtualHost,
            AutomaticRecoveryEnabled = false,
            TopologyRecoveryEnabled = false,
            RequestedHeartbeat = _options.Heartbeat,
            RequestedConnectionTimeout = _options.ConnectTimeout,
            HandshakeContinuationTimeout = _options.ConnectTimeout,
            ContinuationTimeout = _options.ConnectTimeout,
            ClientProvidedName = "whimbrel",
            MaxInboundMessageBodySize = MostEnvelopeBytes,
        };
        bool isTls = parsed.WantsTls || _options.Tls is not null;
        _servers = [.. parsed.Servers.Select(
            s => isTls ? new AmqpTcpEndpoint(s.Host, s.Port, TlsFor(s.Host)) : new AmqpTcpEndpoint(s.Host, s.Port))];
    }

    /// <summary>
    /// Registers this bus for <c>amqp://</c> and <c>amqps://</c> addresses (<see cref="GroupBus.Register"/>). Call it
    /// once at program start.
    /// </summary>
    /// <param name="options">Options of all its buses, or null for the defaults.</param>
    public static void Register(RabbitMqOptions? options = null)
    {
        GroupBus.Register("amqp", address => new RabbitMqBus(address, options));
        GroupBus.Register("amqps", address => new RabbitMqBus(address, options));
    }

    /// <inheritdoc/>
    public string Description { get; }

    /// <inheritdoc/>
    public string Reached => _link is { } link
        ? $"RabbitMQ {link.Server} (of {Description[(Description.IndexOf(' ', StringComparison.Ordinal) + 1)..]})"
        : Description;

    /// <inheritdoc/>
    public int MaxEnvelopeBytes => MostEnvelopeBytes;

    internal string Exchange => _options.Exchange;

    internal Loop Loop => _loop!;

    /// <inheritdoc/>
    public async ValueTask StartAsync(Loop loop, IGroupBusListener listener, CancellationToken cancellationToken)
    {
        ArgumentNullException.ThrowIfNull(loop);
        ArgumentNullException.ThrowIfNull(listener);
        if (_loop is not null || _stopped.IsCancellationRequested)
            throw new InvalidOperationException("A bus serves one node, and is started once.");
        (_loop, _listener) = (loop, listener);
        using CancellationTokenSource either = CancellationTokenSource.CreateLinkedTokenSource(cancellationToken,
            _stopped);
        RabbitMqLink link = await ConnectAsync(either.Token).ConfigureAwait(false);
        loop.Post(() => Opened(link));
        _running = RunAsync(link);
    }

    /// <inheritdoc/>
    public int Publish(ReadOnlySpan<BusMessage> messages)
    {
        if (_link is not { } link) return 0;
        int taken = 0;
        while (taken < messages.Length && link.Publish(messages[taken])) taken++;
        return taken;
    }

    /// <inheritdoc/>
    public void Subscribe(string subject)
    {
        if (_link is not { } link) return;
        string key = RabbitMqLink.KeyOf(subject);
        ref Subscription subscription = ref CollectionsMarshal.GetValueRefOrAddDefault(_subscriptions, key, out _);
        if (subscription.IsWanted) return;
        subscription.IsWanted = true;
        link.Bind(key);
    }

    /// <inheritdoc/>
    public void Unsubscribe(string subject)
    {
        string key = RabbitMqLink.KeyOf(subject);
        if (_link is not { } link || !_subscriptions.TryGetValue(key, out Subscription subscription)
            || !subscription.IsWanted)
            return;
        _subscriptions[key] = new Subscription { Leaving = subscription.Leaving + 1 };
        link.Unbind(key);
    }

    /// <inheritdoc/>
    public async ValueTask DisposeAsync()
    {
        if (Interlocked.Exchange(ref _isDisposed, 1) == 1) return;
        await _stop.CancelAsync().ConfigureAwait(false);
        if (_running is { } running) await running.ConfigureAwait(false);
        _stop.Dispose();
    }

    // ------------------------------------------------------------------ on the loop

    internal void Received(RabbitMqLink link, string key, byte[] envelope)
    {
        // Messages before the mark of an unsubscription belong to the previous subscription.
        if (link == _link && !IsOver && _subscriptions.TryGetValue(key, out Subscription subscription)
            && subscription is { IsWanted: true, Leaving: 0 })
            _listener!.OnEnvelope(envelope);
    }

    internal void Unsubscribed(RabbitMqLink link, string key)
    {
        if (link != _link || !_subscriptions.TryGetValue(key, out Subscription subscription)
            || subscription.Leaving == 0)
            return;
        subscription.Leaving--;
        if (subscription is { IsWanted: false, Leaving: 0 }) _subscriptions.Remove(key);
        else _subscriptions[key] = subscription;
    }

    private void Opened(RabbitMqLink link)
    {
        if (IsOver) return;
        _link = link;
        _isReached = true;
        _listener!.OnConnected();
    }

    private void Lost(string why)
    {
        _link = null;
        _subscriptions.Clear();
        if (!IsOver && _isReached) _listener!.OnLost(why);
        _isReached = false;
    }

    // ------------------------------------------------------------------ any thread

    internal void TellRoom(RabbitMqLink link) => _loop!.Post(() =>
    {
        if (link == _link && !IsOver) _listener!.OnRoom();
    });

    private bool IsOver => Volatile.Read(ref _isDisposed) == 1;

    /// <summary>Keeps a connection, and reconnects, until the bus is disposed.</summary>
    private async Task RunAsync(RabbitMqLink? link)
    {
        try
        {
            while (link is not null)
            {
                string why = await link.Ended.WaitAsync(_stopped).ConfigureAwait(false);
                _loop!.Post(() => Lost($"{why}. Reconnecting."));
                await link.DisposeAsync().ConfigureAwait(false);
                link = null;
                link = await ReconnectAsync().ConfigureAwait(false);
                RabbitMqLink opened = link;
                _loop!.Post(() => Opened(opened));
            }
        }
        catch (OperationCanceledException) when (_stopped.IsCancellationRequested)
        {
            // Disposed.
        }
        finally
        {
            if (link is not null) await link.DisposeAsync().ConfigureAwait(false);
        }
    }

    private async Task<RabbitMqLink> ReconnectAsync()
    {
        ReconnectPolicy policy = _options.Reconnect;
        for (TimeSpan delay = policy.InitialDelay; ;
            delay = TimeSpan.FromTicks((long)Math.Min(delay.Ticks * policy.Factor, policy.MaxDelay.Ticks)))
        {
            await Task.Delay(policy.Jitter ? delay * Random.Shared.NextDouble() : delay, _stopped)
                .ConfigureAwait(false);
            try
            {
                return await ConnectAsync(_stopped).ConfigureAwait(false);
            }
            catch (NetworkException e)
            {
                string told = $"{Description} cannot be reached again: {e.Message}";
                if (_told != told) Tell(told);
                _told = told;
            }
        }
    }

    private void Tell(string trouble)
    {
        try
        {
            _options.OnTrouble?.Invoke(trouble);
        }
#pragma warning disable CA1031 // user code: otherwise its exception would stop reconnecting
        catch (Exception e)
#pragma warning restore CA1031
        {
            _loop!.Post(() => throw new InvalidOperationException(
                $"{nameof(RabbitMqOptions)}.{nameof(RabbitMqOptions.OnTrouble)} threw: {e.Message}", e));
        }
    }

    /// <summary>Connects to the first reachable server, in order. Throws the first failure if all fail.</summary>
    private async Task<RabbitMqLink> ConnectAsync(CancellationToken cancellationToken)
    {
        NetworkException? first = null;
        foreach (AmqpTcpEndpoint server in _servers)
        {
            try
            {
                AmqpConnection connection = await ConnectAsync(server, cancellationToken).ConfigureAwait(false);
                RabbitMqLink link = await RabbitMqLink.OpenAsync(this, connection, cancellationToken)
                    .ConfigureAwait(false);
                _told = null;
                return link;
            }
#pragma warning disable CA1031 // with any exception of the client the server cannot be used
            catch (Exception e) when (!cancellationToken.IsCancellationRequested)
#pragma warning restore CA1031
            {
                first ??= RabbitMqFailure.Explain(e, Description);
            }
        }

        throw first!;
    }

    /// <summary>
    /// Connects with a time limit, because the client waits without one for a server that accepts and sends nothing.
    /// </summary>
    private async Task<AmqpConnection> ConnectAsync(AmqpTcpEndpoint server, CancellationToken cancellationToken)
    {
        using CancellationTokenSource late = CancellationTokenSource.CreateLinkedTokenSource(cancellationToken);
        TimeSpan most = 2 * _options.ConnectTimeout;
        late.CancelAfter(most);
        Task<AmqpConnection> connecting = _factory.CreateConnectionAsync([server], late.Token);
        try
        {
            return await connecting.WaitAsync(most, cancellationToken).ConfigureAwait(false);
        }
        catch (Exception e) when (e is TimeoutException or OperationCanceledException)
        {
            _ = connecting.ContinueWith(static d => d.Result.AbortAsync(), CancellationToken.None,
                TaskContinuationOptions.OnlyOnRanToCompletion, TaskScheduler.Default);
            throw;
        }
    }

    private SslOption TlsFor(string host)
    {
        SslOption given = _options.Tls ?? new SslOption();
        return new SslOption(string.IsNullOrEmpty(given.ServerName) ? host : given.ServerName, given.CertPath,
            enabled: true)
        {
            AcceptablePolicyErrors = given.AcceptablePolicyErrors,
            CertificateSelectionCallback = given.CertificateSelectionCallback,
            CertificateValidationCallback = given.CertificateValidationCallback,
            CertPassphrase = given.CertPassphrase,
            Certs = given.Certs,
            CheckCertificateRevocation = given.CheckCertificateRevocation,
            Version = given.Version,
        };
    }

    /// <summary>
    /// State of a subscription. A subject may be subscribed again while the mark of its unsubscription is outstanding.
    /// </summary>
    private struct Subscription
    {
        internal bool IsWanted { get; set; }

        internal int Leaving { get; set; }
    }
}
