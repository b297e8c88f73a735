namespace Whimbrel.Compat.Links;

/// <summary>The end of a connection that another thread is still in OnDisconnecting of, and tells behind that. Completes when Disconnected is told.</summary>
internal sealed class DeferredEnd(Session bridge) : TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously)
{
    internal Session Bridge { get; } = bridge;
}
