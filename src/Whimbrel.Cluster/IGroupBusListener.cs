namespace Whimbrel.Clusters;

/// <summary>The node, as its bus sees it. All calls on the loop that <see cref="IGroupBus.StartAsync"/> was given.</summary>
public interface IGroupBusListener
{
    /// <summary>The broker can be reached, and nothing is subscribed there yet.</summary>
    void OnConnected();

    /// <summary>The broker was lost, and with it what was subscribed. The bus goes on trying.</summary>
    /// <param name="reason">What happened and what comes next, for people.</param>
    void OnLost(string reason);

    /// <summary><see cref="IGroupBus.Publish"/> did not take all, and would take some now. May come too often.</summary>
    void OnRoom();

    /// <summary>An envelope came. Of one publishing node they come in the order in which it published; some may be missing or come twice.</summary>
    /// <param name="envelope">Valid during the call. Whatever it is: the node checks it.</param>
    void OnEnvelope(ReadOnlySpan<byte> envelope);
}
