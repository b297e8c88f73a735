using Whimbrel.Engines;
using Whimbrel.Tls;

namespace Whimbrel.Connections;

/// <summary>
/// An upgrade to TLS asked for in a callback on the pool (contract 16). The call goes to the loop together with what the callback has
/// sent, so that the peer cannot answer the one before the loop knows of the other. From there on the loop takes what it receives for cipher
/// text, and sends an event, which runs behind the callback and gives back what came in the clear and was not taken.
/// </summary>
internal sealed partial class Strand
{
    private TlsUpgrade? _upgrade;
    private bool _hasFinished;
    private bool _isLast;

    /// <summary>What the dial was for. Set before OnConnected: on the pool the connection may serve another when it is needed.</summary>
    internal string? ConnectedHost { get; set; }

    internal bool IsAccepting => _host.IsAccepting;

    /// <summary>
    /// Inside a callback. Mistakes of the session throw; when the connection ends by itself meanwhile, the last callback tells whoever waits.
    /// </summary>
    internal void UpgradeToTls(TlsUpgrade upgrade)
    {
        if (_firstEnd.Cause != CloseCause.None || _hasFinished || _isLast || _session.ConnectedAt is null) Connection.UpgradeWhileEnding();
        if (_upgrade is not null || _host.Tls is not null) Connection.UpgradeTwice();
        if (_connection.HasOperations(_generation)) Connection.UpgradeInsideSend();
        _upgrade = upgrade;
        Hold(Holds.Upgrade);
        _loop.Mailbox.PostInOrder(DataKind.Upgrade, _connection, _generation, upgrade);
    }

    /// <summary>The session ends its half: what it sent goes first.</summary>
    internal void FinishHere()
    {
        _hasFinished = true;
    }

    private void GiveUnread(TlsUpgrade upgrade)
    {
        upgrade.Rest = TakeRest();
        if (!_loop.PostControl(static (_, c, u, g) => ((Connection)c!).StrandUpgrading((uint)g, (TlsUpgrade)u!), _connection, upgrade, _generation)) upgrade.Rest.Clear();
    }

    /// <summary>OnTlsHandshakeCompleted has returned.</summary>
    internal void HandshakedReturned(TlsInfo info)
    {
        if (_upgrade is not { } upgrade)
        {
            // TLS from the start: the session may have refused. Its Close is in the data lane, and the control lane is quicker.
            GoOn(static (connection, hasEnded) => connection.StrandHandshaked(hasEnded));
            return;
        }

        Release(Holds.Upgrade);
        upgrade.Done(info);
    }
}
