namespace Whimbrel.Connections;

/// <summary>Bytes of a pipe that go from socket to socket inside the system, where nobody here has to look at them (docs/design/0028). Loop's thread.</summary>
internal sealed partial class Connection
{
    /// <summary>All that is received goes into a pipe (contract 22): there may be a shorter way for it.</summary>
    internal bool IsPiped => Session.Piping is not null;

    /// <summary>
    /// Where what the socket receives next may go without having been here: all before it has been taken, and at the target nothing waits. Null when it
    /// has to come here.
    /// </summary>
    internal Connection? SpliceTarget =>
        State == ConnectionState.Open && _tenancy.Gate == ReceiveGate.None && !_tenancy.OfferPending && !_tenancy.OfferOwed && _tenancy.Unread.Length == 0 && _tenancy.AtLeast == 0
            && _tenancy.Tls is null && Strand is null && !MayHaveDuplicate ? Session.Piping?.SpliceTarget : null;

    /// <summary>As the target: what comes now would be the next on the wire. A socket that somebody else has an object of may have been made to wait.</summary>
    internal bool TakesSplice(uint generation) => TakesSends(generation) && CanSendNow && _operationCount == 0 && !MayHaveDuplicate;

    /// <summary>So many bytes of the socket have gone to the target's.</summary>
    internal void CompleteSplice(Connection target, int count)
    {
        Loop.CountReceived(count);
        _tenancy.BytesReceived += count;
        Shard.BytesReceived += count;
        Shard.MessagesReceived++;
        Session.Piping!.Spliced(count);
        target.CountSent(count);
        target.CountMessage(count);
        Loop.FlushIfMany();
    }
}
