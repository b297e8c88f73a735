using System.Net.Sockets;

namespace Whimbrel.Compat.Links;

/// <summary>Session or client of an original API, as its link sees it. Implemented explicitly, so that the members are
/// not public.</summary>
internal interface ILinked
{
    /// <summary>True if the class, or a base that is not the library's, overrides OnSent.</summary>
    bool WantsSent { get; }

    /// <summary>True if the class overrides OnEmpty.</summary>
    bool WantsEmpty { get; }

    int SendLimit { get; }

    int ReceiveLimit { get; }

    int ReceiveSize { get; }

    void Tell(LinkEvent what);

    void TellReceived(byte[] buffer, int size);

    void TellSent(long sent, long pending);

    void TellError(SocketError error);

    /// <summary>Calls the virtual Disconnect of the class, if the original calls it for an end by the peer or an
    /// error.</summary>
    void CallDisconnect()
    {
    }

    /// <summary>True if the user may keep the array of each TellReceived, which then has the exact length.</summary>
    bool KeepsArrays => false;

    /// <summary>Reports why the connection ends, if the original API reports it.</summary>
    void TellCause(CloseReason reason)
    {
        SocketError error = ErrorMap.Of(reason);
        if (error != SocketError.Success) TellError(error);
    }
}
