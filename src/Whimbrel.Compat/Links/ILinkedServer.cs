using System.Net.Sockets;

namespace Whimbrel.Compat.Links;

/// <summary>Server of an original API, as its link sees it. Implemented explicitly, so that the members are not
/// public.</summary>
internal interface ILinkedServer
{
    /// <summary>Creates a session with the user's code, and adds it to the server's list.</summary>
    Link Create();

    /// <summary>Removes a session from the server's list.</summary>
    void Forget(ILinked session);

    void Tell(ServerEvent what);

    void Tell(LinkEvent what, ILinked session);

    void TellError(SocketError error);
}
