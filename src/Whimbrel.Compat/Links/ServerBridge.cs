namespace Whimbrel.Compat.Links;

/// <summary>The native server of a link, for one start.</summary>
internal sealed class ServerBridge(ServerOptions options, ServerLink link) : Server(options, () => new Bridge(new BridgeEnd(link)))
{
    // On a loop: the user's code runs where its other callbacks do, because it may block.
    protected override void OnError(Exception exception)
    {
        base.OnError(exception); // says where
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
            // It threw while it was told of an error: there is nobody else to tell.
        }
    }
}
