namespace Whimbrel.Datagrams;

/// <summary>Operations of a loop for datagrams, in addition to those for all connections. Loop's thread.</summary>
internal interface IDatagramEngine
{
    /// <summary>
    /// Sends the socket's queue: calls <c>AdvanceSend</c> and <c>FailSend</c> for progress, <c>CompleteSend</c> when
    /// the next send may start.
    /// </summary>
    void StartSend(DatagramResident socket);

    /// <summary>
    /// Joins or leaves a multicast group. Returns 0 or an error number.
    /// </summary>
    int ChangeMembership(DatagramResident socket, GroupMembership membership, bool joins);
}
