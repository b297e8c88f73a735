using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Compat.Datagrams;

/// <summary>UDP server or client of an original API, as its link sees it. Implemented explicitly, so that the members
/// are not public.</summary>
internal interface IDatagramOwner
{
    /// <summary>True if the class overrides OnSent.</summary>
    bool WantsSent => true;

    void TellReceived(EndPoint peer, byte[] buffer, int size);

    void TellSent(EndPoint peer, long bytes);

    void TellError(SocketError error);

    /// <summary>Called for a datagram longer than the user's limit, after <see cref="TellError"/>.</summary>
    void TellTooLong(EndPoint peer, byte[] buffer);
}
