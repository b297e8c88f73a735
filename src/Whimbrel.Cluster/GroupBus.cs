using System.Collections.Concurrent;

namespace Whimbrel.Clusters;

/// <summary>
/// Buses by the scheme of an address, for <see cref="Cluster.JoinAsync(Server, string, ClusterOptions, CancellationToken)"/>: a program says once which ones it has
/// (<c>NatsBus.Register()</c>), and where it runs says which one it takes. Any thread.
/// </summary>
public static class GroupBus
{
    private static readonly ConcurrentDictionary<string, Func<string, IGroupBus>> s_makers = new(StringComparer.OrdinalIgnoreCase);

    /// <summary>From now on addresses of this scheme are this bus. What was registered for it before is not any more.</summary>
    /// <param name="scheme">What stands before <c>://</c>: ASCII letters, digits, + - and a dot.</param>
    /// <param name="make">Makes a bus for one node out of the whole address, which may have a password in it. Throws <see cref="ArgumentException"/> when it is wrong.</param>
    /// <exception cref="ArgumentException">No such scheme can be.</exception>
    public static void Register(string scheme, Func<string, IGroupBus> make)
    {
        ArgumentException.ThrowIfNullOrEmpty(scheme);
        ArgumentNullException.ThrowIfNull(make);
        if (!scheme.All(static c => char.IsAsciiLetterOrDigit(c) || c is '+' or '-' or '.')) throw new ArgumentException($"'{scheme}' cannot be a scheme.", nameof(scheme));
        s_makers[scheme] = make;
    }

    /// <summary>Makes the bus of an address. It does nothing until a node joins with it.</summary>
    /// <param name="address">For example <c>nats://127.0.0.1:4222</c>.</param>
    /// <exception cref="ArgumentException">The address is wrong, or no bus is registered for its scheme. The message has no password in it.</exception>
    public static IGroupBus Make(string address)
    {
        ArgumentException.ThrowIfNullOrEmpty(address);
        int end = address.IndexOf("://", StringComparison.Ordinal);
        // What stands elsewhere in the address may be a password: it is not repeated.
        if (end <= 0) throw new ArgumentException("The address of the broker has no scheme; right would be nats://host:4222.", nameof(address));
        string scheme = address[..end];
        if (s_makers.TryGetValue(scheme, out Func<string, IGroupBus>? make)) return make(address);
        string known = s_makers.IsEmpty ? "none is" : $"there are {string.Join(", ", s_makers.Keys.Order(StringComparer.Ordinal))}";
        throw new ArgumentException(
            $"No bus is registered for {scheme}:// ({known}). Reference its package and register it once, when the program starts: NatsBus.Register() of Whimbrel.Cluster.Nats, RedisBus.Register() of Whimbrel.Cluster.Redis, RabbitMqBus.Register() of Whimbrel.Cluster.RabbitMq.",
            nameof(address));
    }
}
