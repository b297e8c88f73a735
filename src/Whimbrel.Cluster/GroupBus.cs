using System.Collections.Concurrent;

namespace Whimbrel.Clusters;

/// <summary>
/// Registry of buses by address scheme, for
/// <see cref="Cluster.JoinAsync(Server, string, ClusterOptions, CancellationToken)"/>: a program registers its buses
/// once (<c>NatsBus.Register()</c>), and the configured address selects one. Thread-safe.
/// </summary>
public static class GroupBus
{
    private static readonly ConcurrentDictionary<string, Func<string, IGroupBus>> s_makers =
        new(StringComparer.OrdinalIgnoreCase);

    /// <summary>Registers a bus for a scheme. Replaces an earlier registration of the scheme.</summary>
    /// <param name="scheme">Text before <c>://</c>: ASCII letters, digits, + - and a dot.</param>
    /// <param name="make">
    /// Factory of a bus for one node. Its argument is the whole address, which may contain a password. Throws
    /// <see cref="ArgumentException"/> for an invalid address.
    /// </param>
    /// <exception cref="ArgumentException">The scheme is invalid.</exception>
    public static void Register(string scheme, Func<string, IGroupBus> make)
    {
        ArgumentException.ThrowIfNullOrEmpty(scheme);
        ArgumentNullException.ThrowIfNull(make);
        if (!scheme.All(static c => char.IsAsciiLetterOrDigit(c) || c is '+' or '-' or '.'))
            throw new ArgumentException($"'{scheme}' cannot be a scheme.", nameof(scheme));
        s_makers[scheme] = make;
    }

    /// <summary>Creates the bus of an address. The bus connects when a node joins with it.</summary>
    /// <param name="address">Address of the broker, for example <c>nats://127.0.0.1:4222</c>.</param>
    /// <exception cref="ArgumentException">
    /// The address is invalid, or no bus is registered for its scheme. The message contains no password.
    /// </exception>
    public static IGroupBus Make(string address)
    {
        ArgumentException.ThrowIfNullOrEmpty(address);
        int end = address.IndexOf("://", StringComparison.Ordinal);
        // The rest of the address may contain a password, so the message does not repeat it.
        if (end <= 0)
            throw new ArgumentException("The address of the broker has no scheme; right would be nats://host:4222.",
                nameof(address));
        string scheme = address[..end];
        if (s_makers.TryGetValue(scheme, out Func<string, IGroupBus>? make)) return make(address);
        string known = s_makers.IsEmpty
            ? "none is"
            : $"there are {string.Join(", ", s_makers.Keys.Order(StringComparer.Ordinal))}";
        throw new ArgumentException(
            $"No bus is registered for {scheme}:// ({known}). Reference its package and register it once, "
            + $"when the program starts: NatsBus.Register() of Whimbrel.Cluster.Nats, RedisBus.Register() of "
            + $"Whimbrel.Cluster.Redis, RabbitMqBus.Register() of Whimbrel.Cluster.RabbitMq.",
            nameof(address));
    }
}
