using Whimbrel.Engines;

namespace Whimbrel.Clusters;

/// <summary>
/// What a node needs of a broker: publish and subscribe, at most once. Bytes are all it knows; envelope, order, losses and policy
/// are the node's. One bus serves one node.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>All members but <see cref="IAsyncDisposable.DisposeAsync"/> are called on the loop of <see cref="StartAsync"/>, and so is the listener. None blocks.</item>
/// <item>What one node published on one subject arrives in that order, or does not arrive.</item>
/// <item>While the broker is away nothing is taken and nothing is kept: <see cref="Publish"/> gives 0, and after
/// <see cref="IGroupBusListener.OnConnected"/> the node subscribes anew.</item>
/// <item>What is published after a subscription comes to it, also what the node itself publishes: a subscription and a publish behind it keep their order.</item>
/// </list>
/// </remarks>
public interface IGroupBus : IAsyncDisposable
{
    /// <summary>Reaches the broker, and keeps it reached until disposed. From any thread, once.</summary>
    /// <param name="loop">Where the bus works.</param>
    /// <param name="listener">Who is told.</param>
    /// <param name="cancellationToken">Gives up the first attempt.</param>
    /// <exception cref="NetworkException">The first attempt failed: address, credentials or TLS, each with its message.</exception>
    ValueTask StartAsync(Loop loop, IGroupBusListener listener, CancellationToken cancellationToken);

    /// <summary>Publishes in order; those of one turn are one call.</summary>
    /// <param name="messages">From the first on.</param>
    /// <returns>How many were taken; the node offers the rest again, after <see cref="IGroupBusListener.OnRoom"/> at the latest.</returns>
    int Publish(ReadOnlySpan<BusMessage> messages);

    /// <summary>From now on envelopes of this subject come. Nothing happens when they do already, or while the broker is away.</summary>
    /// <param name="subject">Without wildcards.</param>
    void Subscribe(string subject);

    /// <summary>No more envelopes of this subject. Nothing happens when there are none anyway.</summary>
    /// <param name="subject">As subscribed.</param>
    void Unsubscribe(string subject);

    /// <summary>Largest envelope that the broker takes: what is larger is not given to <see cref="Publish"/>. Told anew with each <see cref="IGroupBusListener.OnConnected"/>.</summary>
    int MaxEnvelopeBytes { get; }

    /// <summary>What is on the other end, for notices: <c>NATS nats://127.0.0.1:4222</c>. Without passwords.</summary>
    string Description { get; }

    /// <summary>The server that is reached, where <see cref="Description"/> may name several, for notices. The default: the description.</summary>
    string Reached => Description;
}
