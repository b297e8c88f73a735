namespace Whimbrel.Simulation.Kernel;

// A connection: two directions, two ends.
internal sealed class KernelLink(ByteTrack toServer, ByteTrack toClient, EndPlan client, EndPlan server)
{
    internal ByteTrack ToServer { get; } = toServer;

    internal ByteTrack ToClient { get; } = toClient;

    internal EndPlan Client { get; } = client;

    internal EndPlan Server { get; } = server;

    // Neither side planned to abort it.
    internal bool IsGraceful => Client.AbortAfter < 0 && Server.AbortAfter < 0;
}
