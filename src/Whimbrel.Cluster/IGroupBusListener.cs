namespace Whimbrel.Clusters;

/// <summary>Callbacks of a bus to its node. All are called on the loop of <see cref="IGroupBus.StartAsync"/>.</summary>
public interface IGroupBusListener
{
    /// <summary>Called when the broker is connected. There are no subscriptions yet.</summary>
    void OnConnected();

    /// <summary>Called when the connection and all subscriptions are lost. The bus continues to reconnect.</summary>
    /// <param name="reason">Reason and next step, as text for operators.</param>
    void OnLost(string reason);

    /// <summary>
    /// Called when <see cref="IGroupBus.Publish"/> can accept messages again. May be called too often.
    /// </summary>
    void OnRoom();

    /// <summary>
    /// Called for each envelope, in publishing order per node. Envelopes may be missing or arrive twice.
    /// </summary>
    /// <param name="envelope">Bytes of the envelope, unchecked. Valid during the call.</param>
    void OnEnvelope(ReadOnlySpan<byte> envelope);
}
