namespace Whimbrel.Simulation.Uring;

// How one end of a connection behaves.
internal enum EndStyle
{
    // Finishes sending when all is sent; the connection ends when the other has finished, too.
    Finish,

    // Closes when all is sent, and all that the other sends has come.
    Close,

    // Sends, and waits for the other to end.
    Follow,

    // Sends back what comes, and waits for the other to end.
    Echo,
}

// What is planned for one end of a connection.
internal sealed class EndPlan
{
    internal EndStyle Style;
    internal int ToSend;
    internal int PieceBytes;

    // What the other will have sent when it has sent all.
    internal int Expected;

    // Ends it with a reset, after so many steps; negative: never.
    internal int AbortAfter = -1;
    internal bool IsSlow;
    internal bool SendsFromElsewhere;
}

// A connection: two directions, two ends.
internal sealed class RingLink(ByteTrack toServer, ByteTrack toClient, EndPlan client, EndPlan server)
{
    internal ByteTrack ToServer { get; } = toServer;

    internal ByteTrack ToClient { get; } = toClient;

    internal EndPlan Client { get; } = client;

    internal EndPlan Server { get; } = server;

    // Nobody planned to break it off.
    internal bool IsGraceful => Client.AbortAfter < 0 && Server.AbortAfter < 0;
}
