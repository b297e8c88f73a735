namespace Whimbrel;

/// <summary>Waiting until sent data has left (contract 23).</summary>
public abstract partial class Session
{
    /// <summary>
    /// Completes when the kernel has accepted everything that its caller has sent before: with true; or with false if
    /// the connection has ended first, or there is none. Completes at once if nothing is pending. True does not mean
    /// that the peer has read the data; only the peer can confirm that. Allocates nothing, and does not make data leave
    /// earlier. Broadcasts held by a <see cref="Whimbrel.BroadcastGate"/> are not included. Any thread.
    /// </summary>
    public ValueTask<bool> SentAsync() =>
        _connection is { } connection ? connection.Outbound.SentAsync(_generation) : new(false);
}
