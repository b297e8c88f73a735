namespace Whimbrel.Compat.Datagrams;

/// <summary>A server or client of UDP of CSharpServer, as its life sees it. Implemented explicitly, so that none of it shows.</summary>
internal interface IUdpOwner : IDatagramOwner
{
    void TellOpened();

    void TellClosed();

    /// <summary>It could not be opened; the error was told.</summary>
    void TellFailed()
    {
    }

    void TellGroup(string group, bool joined)
    {
    }
}
