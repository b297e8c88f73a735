using System.Text;
using Whimbrel.Engines;

namespace Whimbrel.Clusters;

/// <summary>
/// The bus over NATS servers, by their core protocol: at most once; and by JetStream for recoverable groups. It dials again by itself when a server is lost. Users with passwords and tokens; TLS as the server or
/// <see cref="NatsOptions.Tls"/> wants it. One connection, on the loop of its node.
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

    /// <summary>Makes a bus; nothing is opened before a node joins with it.</summary>
    /// <param name="address">
    /// <c>nats://host:4222</c>, with <c>user:password@</c> or <c>token@</c> before the host where the server asks for it, and with several
    /// servers behind commas. <c>tls://</c> insists on TLS. Port 4222 may be left out.
    /// </param>
    /// <param name="options">Null for the defaults.</param>
    /// <exception cref="ArgumentException">No such address, or an option is out of its range.</exception>
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

    /// <summary>From now on <c>nats://</c> addresses are this bus (<see cref="GroupBus.Register"/>). Once, when the program starts.</summary>
    /// <param name="options">For all of them; null for the defaults.</param>
    public static void Register(NatsOptions? options = null) => GroupBus.Register("nats", address => new NatsBus(address, options));

    /// <inheritdoc/>
    public string Description => Link.Settings.Description;

    /// <inheritdoc/>
    public string Reached => Link.Reached;

    /// <inheritdoc/>
    public int MaxEnvelopeBytes => Math.Min((Link.Session?.Protocol as NatsProtocol)?.Info?.MaxPayload ?? MostEnvelopeBytes, MostEnvelopeBytes);

    internal BrokerLink Link { get; }

    internal byte[] ConnectLine { get; }

    internal bool HasLogin { get; }

    internal bool WantsTls => _wantsTls;

    /// <summary>One object for all connections, as an upgrade wants it.</summary>
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
    public bool Append(string subject, HistoryLimits limits, IReadOnlyList<ReadOnlyMemory<byte>> envelopes, Action<bool> done)
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

    /// <summary>The next subscription's.</summary>
    internal ulong TakeNumber() => ++_lastNumber;

    internal void Received(in NatsItem message)
    {
        // What was on its way when it was unsubscribed is not wanted any more.
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
