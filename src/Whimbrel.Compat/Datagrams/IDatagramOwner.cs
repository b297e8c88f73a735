using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Compat.Datagrams;

/// <summary>A server or client of UDP of an old API, as its link sees it. Implemented explicitly, so that none of it shows.</summary>
internal interface IDatagramOwner
{
    /// <summary>The class overrides OnSent.</summary>
    bool WantsSent => true;

    void TellReceived(EndPoint peer, byte[] buffer, int size);

    void TellSent(EndPoint peer, long bytes);

    void TellError(SocketError error);

    /// <summary>A datagram was longer than the limit of the user's: told as an error already.</summary>
    void TellTooLong(EndPoint peer, byte[] buffer);
}
