using System.Net.Sockets;

namespace Whimbrel.Compat.Links;

/// <summary>A session or a client of an old API, as its link sees it: what can be told to it. Implemented explicitly, so that none of it shows.</summary>
internal interface ILinked
{
    /// <summary>The class overrides OnSent, or one of its bases beside the library's own does.</summary>
    bool WantsSent { get; }

    /// <summary>The class overrides OnEmpty.</summary>
    bool WantsEmpty { get; }

    int SendLimit { get; }

    int ReceiveLimit { get; }

    int ReceiveSize { get; }

    void Tell(LinkEvent what);

    void TellReceived(byte[] buffer, int size);

    void TellSent(long sent, long pending);

    void TellError(SocketError error);

    /// <summary>The array of each TellReceived is the user's to keep, and as long as what came.</summary>
    bool KeepsArrays => false;

    /// <summary>Why the connection ends, if that is told at all.</summary>
    void TellCause(CloseReason reason)
    {
        SocketError error = ErrorMap.Of(reason);
        if (error != SocketError.Success) TellError(error);
    }
}
