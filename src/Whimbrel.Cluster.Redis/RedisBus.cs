using System.Text;
using Whimbrel.Engines;

namespace Whimbrel.Clusters;

/// <summary>
/// Bus over a Redis server, 6 or later: publish and subscribe with at-most-once delivery, and streams for recoverable
/// groups. Reconnects automatically. Supports users with passwords, and TLS. One RESP3 connection, on the loop of its
/// node.
/// </summary>
public sealed class RedisBus : IGroupBus, IGroupHistory
{
    /// <inheritdoc cref="BrokerLink.MostEnvelopeBytes"/>
    internal const int MostEnvelopeBytes = BrokerLink.MostEnvelopeBytes;

    private const int MostSubjectLength = 1024;

    private readonly Dictionary<string, RedisSubscription> _subscriptions = new(StringComparer.Ordinal);
    private readonly Dictionary<string, RedisSubscription>.AlternateLookup<ReadOnlySpan<char>> _subscriptionsBySpan;
    private readonly byte[] _prefix;

    /// <summary>Creates a bus. It connects when a node joins with it.</summary>
    /// <param name="address">
    /// Address: <c>redis://host:6379</c>, optionally with <c>:password@</c> or <c>user:password@</c> before the host.
    /// Several servers are separated by commas; one of them is used. <c>rediss://</c> enables TLS. The default port is
    /// 6379.
    /// </param>
    /// <param name="options">Options, or null for the defaults.</param>
    /// <exception cref="ArgumentException">The address is invalid, or an option is out of its range.</exception>
    public RedisBus(string address, RedisOptions? options = null)
    {
        RedisAddress parsed = RedisAddress.Parse(address);
        options ??= new RedisOptions();
        options.Check();
        string? user = options.Password is null ? parsed.User : options.User,
            password = options.Password ?? parsed.Password;
        Hello = password is null
            ? RedisCommands.Write("HELLO", "3", "SETNAME", "whimbrel")
            : RedisCommands.Write("HELLO", "3", "AUTH", user ?? "default", password, "SETNAME", "whimbrel");
        Prefix = options.Prefix;
        BrokerSettings settings = new()
        {
            Description = $"Redis {parsed.Text}",
            OptionsName = nameof(RedisOptions),
            Servers = parsed.Servers,
            Tls = options.Tls ?? (parsed.WantsTls ? new TlsOptions() : null),
            ConnectTimeout = options.ConnectTimeout,
            PingInterval = options.PingInterval,
            Reconnect = options.Reconnect,
            OnTrouble = options.OnTrouble,
            MostAroundEnvelope = 2 * RespReader.MostAroundBulk,
        };
        History = new RedisHistory(this);
        Link = new BrokerLink(settings, () => new RedisProtocol(this), Forget);
        _prefix = Encoding.ASCII.GetBytes(Prefix);
        _subscriptionsBySpan = _subscriptions.GetAlternateLookup<ReadOnlySpan<char>>();
    }

    /// <summary>
    /// Registers this bus for <c>redis://</c> and <c>rediss://</c> addresses (<see cref="GroupBus.Register"/>). Call it
    /// once at program start.
    /// </summary>
    /// <param name="options">Options of all its buses, or null for the defaults.</param>
    public static void Register(RedisOptions? options = null)
    {
        GroupBus.Register("redis", address => new RedisBus(address, options));
        GroupBus.Register("rediss", address => new RedisBus(address, options));
    }

    /// <inheritdoc/>
    public string Description => Link.Settings.Description;

    /// <inheritdoc/>
    public string Reached => Link.Reached;

    /// <inheritdoc/>
    public int MaxEnvelopeBytes => MostEnvelopeBytes;

    internal BrokerLink Link { get; }

    internal RedisHistory History { get; }

    /// <summary>Prefix of channel names.</summary>
    internal string Prefix { get; }

    internal byte[] Hello { get; }

    /// <inheritdoc/>
    public ValueTask StartAsync(Loop loop, IGroupBusListener listener, CancellationToken cancellationToken) =>
        Link.StartAsync(loop, listener, cancellationToken);

    /// <inheritdoc/>
    public int Publish(ReadOnlySpan<BusMessage> messages) => Link.Publish(messages);

    /// <inheritdoc/>
    public void Subscribe(string subject)
    {
        if (Link.Session is not { } session) return;
        if (!_subscriptions.TryGetValue(subject, out RedisSubscription? subscription))
            _subscriptions.Add(subject, subscription = new RedisSubscription());
        if (subscription.IsWanted) return;
        subscription.IsWanted = true;
        session.Command(RedisCommands.Write("SUBSCRIBE", Prefix + subject));
    }

    /// <inheritdoc/>
    public void Unsubscribe(string subject)
    {
        if (Link.Session is not { } session || !_subscriptions.TryGetValue(subject, out RedisSubscription? subscription)
            || !subscription.IsWanted)
            return;
        subscription.IsWanted = false;
        subscription.Leaving++;
        session.Command(RedisCommands.Write("UNSUBSCRIBE", Prefix + subject));
    }

    /// <inheritdoc/>
    public bool Append(string subject, HistoryLimits limits, IReadOnlyList<ReadOnlyMemory<byte>> envelopes,
        Action<bool> done)
    {
        ArgumentNullException.ThrowIfNull(limits);
        ArgumentNullException.ThrowIfNull(done);
        return History.Ask(subject, limits, 0, 0, envelopes, page => done(page is not null));
    }

    /// <inheritdoc/>
    public bool Read(string subject, HistoryLimits limits, ulong after, int most, Action<HistoryPage?> done)
    {
        ArgumentNullException.ThrowIfNull(limits);
        ArgumentNullException.ThrowIfNull(done);
        return History.Ask(subject, limits, after, most, [], done);
    }

    /// <inheritdoc/>
    public ValueTask DisposeAsync() => Link.DisposeAsync();

    private void Forget()
    {
        _subscriptions.Clear();
        History.Forget();
    }

    /// <summary>
    /// Handles a push: <c>message</c>, channel, payload; or the result of a subscription with a count.
    /// </summary>
    internal void Received(in RespItem push)
    {
        if (Link.Listener is not { } listener || push.Count != 3) return;
        ReadOnlySpan<byte> rest = push.Body;
        RespItem what = RespReader.Next(ref rest), channel = RespReader.Next(ref rest),
            third = RespReader.Next(ref rest);
        if (channel.Kind != RespKind.Bulk || !channel.Body.StartsWith(_prefix)
            || channel.Body.Length - _prefix.Length > MostSubjectLength)
            return;
        Span<char> subject = stackalloc char[MostSubjectLength];
        subject = subject[..Encoding.ASCII.GetChars(channel.Body[_prefix.Length..], subject)];
        if (!_subscriptionsBySpan.TryGetValue(subject, out RedisSubscription? subscription)) return;
        if (what.Is("message"u8))
        {
            // Messages before the answer to an unsubscription belong to the previous subscription.
            if (subscription is { IsWanted: true, Leaving: 0 } && third.Kind == RespKind.Bulk)
                listener.OnEnvelope(third.Body);
        }
        else if (what.Is("unsubscribe"u8) && subscription.Leaving > 0 && --subscription.Leaving == 0
            && !subscription.IsWanted)
        {
            _subscriptionsBySpan.Remove(subject);
        }
    }
}
