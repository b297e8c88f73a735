using Whimbrel.Engines;
using Whimbrel.Tls;

namespace Whimbrel.Connections;

/// <summary>
/// An upgrade to TLS that a callback on the pool starts (contract 16). It is an entry of the inbox, after the sends of
/// the callback. When the loop processes it, the bytes that it receives later are cipher text, and the strand gets an
/// event. The event runs after the callback and returns the plain bytes that the session has not consumed.
/// </summary>
internal sealed partial class Strand
{
    private TlsUpgrade? _upgrade;
    private bool _hasFinished;
    private bool _isLast;

    /// <summary>
    /// Host name that was connected to. Set before OnConnected, because on the pool the connection may already serve
    /// another session when it is needed.
    /// </summary>
    internal string? ConnectedHost { get; set; }

    internal bool IsAccepting => _host.IsAccepting;

    /// <summary>
    /// Starts the upgrade. Inside a callback. Mistakes of the session throw. If the connection ends meanwhile, the last
    /// callback completes the waiting call.
    /// </summary>
    internal void UpgradeToTls(TlsUpgrade upgrade)
    {
        if (_firstEnd.Cause != CloseCause.None || _hasFinished || _isLast || _driver.Session.ConnectedAt is null)
            Connection.UpgradeWhileEnding();
        if (_upgrade is not null || _host.Tls is not null) Connection.UpgradeTwice();
        if (_connection.Outbound.HasCallersOf(_generation)) Connection.UpgradeInsideSend();
        _upgrade = upgrade;
        Hold(ReceiveGate.Upgrade);
        _loop.Mailbox.PostInOrder(InboxKind.Upgrade, _connection, _generation, upgrade);
    }

    /// <summary>Notes that the session has ended its half: an upgrade or a Commit is invalid from now on.</summary>
    internal void FinishHere()
    {
        _hasFinished = true;
    }

    private void GiveUnread(TlsUpgrade upgrade)
    {
        upgrade.Rest = TakeRest();
        if (!_loop.PostControl(static (_, c, u, g) => ((Connection)c!).StrandUpgrading((uint)g, (TlsUpgrade)u!),
            _connection, upgrade, _generation))
            upgrade.Rest.Clear();
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

        Release(ReceiveGate.Upgrade);
        upgrade.Done(info);
    }
}
