namespace Whimbrel.Tool.Bench;

/// <summary>The connection of a lane. Its loop only.</summary>
internal interface ILanePeer
{
    /// <summary>Sends the message with this number. Returns false if the send queue is full or the connection ends;
    /// then <see cref="Lane.Freed"/> follows, or the end.</summary>
    bool TrySend(long number);

    /// <summary>What has come back of a first message that got no complete answer.</summary>
    string Progress { get; }
}
