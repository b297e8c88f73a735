using System.Globalization;

namespace Whimbrel.Clusters;

/// <summary>Connects to the servers of a bus, and reconnects.</summary>
internal sealed class BrokerClient(ClientOptions options, BrokerLink link, Func<BrokerSession> make)
    : Client(options, make)
{
    /// <inheritdoc/>
    protected override bool HasOpening => true;

    internal void ReportOpened(BrokerSession session) => base.ReportOpened(session);

    /// <summary>
    /// Returns whether reconnecting stops. A close by the bus after an error does not stop it; a disconnect does.
    /// </summary>
    /// <param name="reason">Reason why the last connection or connect ended.</param>
    protected override bool IsFinal(CloseReason reason) => reason.Cause == CloseCause.EngineStopped;

    /// <inheritdoc/>
    protected override Exception FailureOf(NetworkException failure) => link.Explain(failure);

    /// <inheritdoc/>
    protected override void OnReconnecting(int attempt, TimeSpan delay, CloseReason reason) =>
        link.Lost(reason, string.Create(CultureInfo.InvariantCulture,
            $"Reconnecting (attempt {attempt}, next in {delay.TotalSeconds:0.0} s)."));

    /// <inheritdoc/>
    protected override void OnGaveUp(CloseReason reason) =>
        link.Lost(reason, $"{link.Settings.OptionsName}.Reconnect allows no further attempt.");
}
