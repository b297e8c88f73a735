using Whimbrel.Engines;

namespace Whimbrel.Clusters;

/// <summary>
/// Connection of a node to a broker: publish and subscribe with at-most-once delivery. A bus carries bytes; the node
/// handles envelopes, order, losses and policy. One bus serves one node.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>All members but <see cref="StartAsync"/> and <see cref="IAsyncDisposable.DisposeAsync"/> are called on the
/// loop of <see cref="StartAsync"/>, and so is the listener. None blocks.</item>
/// <item>Envelopes of one node on one subject arrive in publishing order, or not at all.</item>
/// <item>While the broker is away nothing is accepted or kept: <see cref="Publish"/> returns 0. After
/// <see cref="IGroupBusListener.OnConnected"/> the node subscribes again.</item>
/// <item>Envelopes published after a subscription are delivered to it, including those of the node itself: a
/// subscription and a later publish keep their order.</item>
/// </list>
/// </remarks>
public interface IGroupBus : IAsyncDisposable
{
    /// <summary>Connects to the broker, and reconnects until disposed. Any thread, once.</summary>
    /// <param name="loop">Loop on which the bus works.</param>
    /// <param name="listener">Receiver of envelopes and connection events.</param>
    /// <param name="cancellationToken">Cancels the first attempt.</param>
    /// <exception cref="NetworkException">The first attempt failed: address, credentials or TLS, each with its
    /// message.</exception>
    ValueTask StartAsync(Loop loop, IGroupBusListener listener, CancellationToken cancellationToken);

    /// <summary>Publishes messages in order. The node calls it once per batch.</summary>
    /// <param name="messages">Messages of a batch.</param>
    /// <returns>
    /// Number of messages accepted, from the first. The node offers the rest again, at the latest after
    /// <see cref="IGroupBusListener.OnRoom"/>.
    /// </returns>
    int Publish(ReadOnlySpan<BusMessage> messages);

    /// <summary>
    /// Subscribes to a subject. Does nothing if it is subscribed already, or while the broker is away.
    /// </summary>
    /// <param name="subject">Subject without wildcards.</param>
    void Subscribe(string subject);

    /// <summary>Unsubscribes from a subject. Does nothing if it is not subscribed.</summary>
    /// <param name="subject">Subject as subscribed.</param>
    void Unsubscribe(string subject);

    /// <summary>
    /// Largest envelope that the broker accepts, in bytes. <see cref="Publish"/> is not called with larger ones. May
    /// change with each <see cref="IGroupBusListener.OnConnected"/>.
    /// </summary>
    int MaxEnvelopeBytes { get; }

    /// <summary>
    /// Name of the broker for diagnostic events, for example <c>NATS nats://127.0.0.1:4222</c>. Without passwords.
    /// </summary>
    string Description { get; }

    /// <summary>
    /// Name of the connected server for diagnostic events, because <see cref="Description"/> may name several. The
    /// default is <see cref="Description"/>.
    /// </summary>
    string Reached => Description;
}
