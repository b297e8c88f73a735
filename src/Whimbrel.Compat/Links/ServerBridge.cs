namespace Whimbrel.Compat.Links;

/// <summary>Native server of a link, for one start.</summary>
internal sealed class ServerBridge(ServerOptions options, ServerLink link)
    : Server(options, () => new Bridge(new BridgeEnd(link)))
{
    // Called on a loop. User code runs where other callbacks run, because it may block.
    protected override void OnError(Exception exception)
    {
        base.OnError(exception); // logs the exception
        if (Options.Scheduling == Scheduling.Inline) Tell(exception);
        else ThreadPool.UnsafeQueueUserWorkItem(Tell, exception, preferLocal: false);
    }

    private void Tell(Exception exception)
    {
        try
        {
            link.Failed(ErrorMap.Of(exception));
        }
        catch (Exception)
        {
            // The error callback itself threw: there is no other callback to call.
        }
    }
}
