using System.Net.Sockets;

namespace Whimbrel.Compat.Links;

/// <summary>A server of an old API, as its link sees it. Implemented explicitly, so that none of it shows.</summary>
internal interface ILinkedServer
{
    /// <summary>Makes a session by the user's code, and keeps it among the server's.</summary>
    Link Create();

    /// <summary>The session is not among the server's any more.</summary>
    void Forget(ILinked session);

    void Tell(ServerEvent what);

    void Tell(LinkEvent what, ILinked session);

    void TellError(SocketError error);
}
