using System.Text;
using Whimbrel.Engines;

namespace Whimbrel.Clusters;

/// <summary>
/// Bus over NATS servers: the core protocol with at-most-once delivery, and JetStream for recoverable groups.
/// Reconnects automatically. Supports users with passwords, tokens, and TLS as required by the server or
/// <see cref="NatsOptions.Tls"/>. One connection, on the loop of its node.
/// </summary>
public sealed class NatsBus : IGroupBus, IGroupHistory
{
    /// <inheritdoc cref="BrokerLink.MostEnvelopeBytes"/>
    internal const int MostEnvelopeBytes = BrokerLink.MostEnvelopeBytes;

    private readonly Dictionary<string, ulong> _subscriptions = new(StringComparer.Ordinal);
    private readonly HashSet<ulong> _numbers = [];
    private readonly NatsRequests _requests;
    private readonly NatsHistory _history;
    private readonly bool _wantsTls;
    private ulong _lastNumber;

    /// <summary>Creates a bus. It connects when a node joins with it.</summary>
    /// <param name="address">
    /// Address: <c>nats://host:4222</c>, optionally with <c>user:password@</c> or <c>token@</c> before the host.
    /// Several servers are separated by commas. <c>tls://</c> requires TLS. The default port is 4222.
    /// </param>
    /// <param name="options">Options, or null for the defaults.</param>
    /// <exception cref="ArgumentException">The address is invalid, or an option is out of its range.</exception>
    public NatsBus(string address, NatsOptions? options = null)
    {
        NatsAddress parsed = NatsAddress.Parse(address);
        options ??= new NatsOptions();
        options.Check();
        string? user = options.User, password = options.Password, token = options.Token;
        if (user is null && token is null && parsed.Password is null) token = parsed.User;
        else if (user is null && token is null) (user, password) = (parsed.User, parsed.Password);
        HasLogin = user is not null || token is not null;
        ConnectLine = NatsLines.Connect(user, password, token);
        Tls = options.Tls ?? new TlsOptions();
        _wantsTls = parsed.WantsTls || options.Tls is not null;
        BrokerSettings settings = new()
        {
            Description = $"NATS {parsed.Text}",
            OptionsName = nameof(NatsOptions),
            Servers = parsed.Servers,
            ConnectTimeout = options.ConnectTimeout,
            PingInterval = options.PingInterval,
            Reconnect = options.Reconnect,
            OnTrouble = options.OnTrouble,
            MostAroundEnvelope = 2 * NatsReader.MostInfoBytes,
        };
        Link = new BrokerLink(settings, () => new NatsProtocol(this), Forget);
        _requests = new NatsRequests(this);
        _history = new NatsHistory(this, _requests);
    }

    /// <summary>
    /// Registers this bus for <c>nats://</c> addresses (<see cref="GroupBus.Register"/>). Call it once at program
    /// start.
    /// </summary>
    /// <param name="options">Options of all its buses, or null for the defaults.</param>
    public static void Register(NatsOptions? options = null) =>
        GroupBus.Register("nats", address => new NatsBus(address, options));

    /// <inheritdoc/>
    public string Description => Link.Settings.Description;

    /// <inheritdoc/>
    public string Reached => Link.Reached;

    /// <inheritdoc/>
    public int MaxEnvelopeBytes =>
        Math.Min((Link.Session?.Protocol as NatsProtocol)?.Info?.MaxPayload ?? MostEnvelopeBytes, MostEnvelopeBytes);

    internal BrokerLink Link { get; }

    internal byte[] ConnectLine { get; }

    internal bool HasLogin { get; }

    internal bool WantsTls => _wantsTls;

    /// <summary>TLS options, one object for all connections, as upgrades require.</summary>
    internal TlsOptions Tls { get; }

    /// <inheritdoc/>
    public ValueTask StartAsync(Loop loop, IGroupBusListener listener, CancellationToken cancellationToken)
    {
        _requests.Loop = loop;
        return Link.StartAsync(loop, listener, cancellationToken);
    }

    /// <inheritdoc/>
    public int Publish(ReadOnlySpan<BusMessage> messages) => Link.Publish(messages);

    /// <inheritdoc/>
    public void Subscribe(string subject)
    {
        if (Link.Session is not { } session || !_subscriptions.TryAdd(subject, _lastNumber + 1)) return;
        _numbers.Add(TakeNumber());
        session.Command(Encoding.ASCII.GetBytes($"SUB {subject} {_lastNumber}\r\n"));
    }

    /// <inheritdoc/>
    public void Unsubscribe(string subject)
    {
        if (Link.Session is not { } session || !_subscriptions.Remove(subject, out ulong number)) return;
        _numbers.Remove(number);
        session.Command(Encoding.ASCII.GetBytes($"UNSUB {number}\r\n"));
    }

    /// <inheritdoc/>
    public bool Append(string subject, HistoryLimits limits, IReadOnlyList<ReadOnlyMemory<byte>> envelopes,
        Action<bool> done)
    {
        ArgumentNullException.ThrowIfNull(limits);
        ArgumentNullException.ThrowIfNull(envelopes);
        ArgumentNullException.ThrowIfNull(done);
        return _history.Append(subject, limits, envelopes, done);
    }

    /// <inheritdoc/>
    public bool Read(string subject, HistoryLimits limits, ulong after, int most, Action<HistoryPage?> done)
    {
        ArgumentNullException.ThrowIfNull(limits);
        ArgumentNullException.ThrowIfNull(done);
        return _history.Read(subject, limits, after, most, done);
    }

    /// <inheritdoc/>
    public string? Unsupported => _history.Unsupported;

    /// <inheritdoc/>
    public ValueTask DisposeAsync() => Link.DisposeAsync();

    /// <summary>Returns the number of the next subscription.</summary>
    internal ulong TakeNumber() => ++_lastNumber;

    internal void Received(in NatsItem message)
    {
        // Messages that were in transit when the subject was unsubscribed are dropped.
        if (_numbers.Contains(message.Subscription)) Link.Listener?.OnEnvelope(message.Body);
        else if (message.Subscription == _requests.Number) _requests.Heard(message);
    }

    private void Forget()
    {
        _subscriptions.Clear();
        _numbers.Clear();
        _history.Forget();
        _requests.Forget();
    }
}
