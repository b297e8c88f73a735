namespace Whimbrel.Compat.Datagrams;

/// <summary>UDP server or client of CSharpServer, as <see cref="UdpLife"/> sees it. Implemented explicitly, so that the
/// members are not public.</summary>
internal interface IUdpOwner : IDatagramOwner
{
    void TellOpened();

    void TellClosed();

    /// <summary>Called when the socket could not be opened, after <see cref="IDatagramOwner.TellError"/>.</summary>
    void TellFailed()
    {
    }

    void TellGroup(string group, bool joined)
    {
    }
}
