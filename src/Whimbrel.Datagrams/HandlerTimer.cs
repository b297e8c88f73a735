namespace Whimbrel.Datagrams;

/// <summary>A timer of a datagram handler, which calls the handler and ends with its socket.</summary>
internal sealed class HandlerTimer(LoopSocket resident) : LoopTimer(resident.Loop)
{
    protected override void OnFired(bool isCancelled)
    {
        if (!isCancelled) resident.TimerFired(this);
    }
}
