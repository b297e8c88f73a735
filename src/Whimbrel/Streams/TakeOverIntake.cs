namespace Whimbrel.Streams;

/// <summary>
/// Receive handler during a hand-over to a stream or a pipe. If the session ends by anything else first, the awaiting
/// code gets the failure.
/// </summary>
internal sealed class TakeOverIntake(Action<Exception?> taken) : Intake
{
    internal override int Take(Session session, ReadOnlySpan<byte> unread) => session.CallOnData(unread);

    internal override void Offered(Session session, int left)
    {
    }

    internal override void OffersAgain()
    {
    }

    internal override void End(CloseReason reason)
    {
        if (reason.Cause != CloseCause.HandedOver) taken(PipeSession.EndOf("take over", reason));
    }
}
