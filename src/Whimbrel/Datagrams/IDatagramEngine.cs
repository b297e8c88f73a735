namespace Whimbrel.Datagrams;

/// <summary>What a loop supplies for datagrams beside the verbs that all residents have. Loop's thread.</summary>
internal interface IDatagramEngine
{
    /// <summary>Sends the socket's queue: <c>AdvanceSend</c> and <c>FailSend</c> for progress, <c>CompleteSend</c> when the next may start.</summary>
    void StartSend(DatagramResident socket);

    /// <summary>Joins or leaves a multicast group, on the interface of that number. 0 or an error number.</summary>
    int ChangeMembership(DatagramResident socket, MulticastGroup group, int interfaceIndex, bool joins);
}
