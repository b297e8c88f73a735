namespace Whimbrel.Connections;

/// <summary>
/// Data of a pipe that moves from socket to socket inside the kernel, when no code here needs it (docs/design/0028).
/// Loop's thread.
/// </summary>
internal sealed partial class Connection
{
    /// <summary>True if all received data goes into a pipe (contract 22), so that splice may be possible.</summary>
    internal bool IsPiped => Session.Piping is not null;

    /// <summary>
    /// Target to which the next received data may be spliced: everything before it was taken, and nothing waits at the
    /// target. Null if the data must be received here.
    /// </summary>
    internal Connection? SpliceTarget =>
        State == ConnectionState.Open && MayDeliver
        && !_tenancy.OfferOwed && UnreadCount == 0 && !_tenancy.Driver.HasMinimum
            && _tenancy.Tls is null && Pool is null && !MayHaveDuplicate ? Session.Piping?.SpliceTarget : null;

    /// <summary>
    /// True if, as a target, spliced data would be the next on the wire. A socket that other code has an object of may
    /// have been made blocking.
    /// </summary>
    internal bool TakesSplice(uint generation) =>
        Outbound.TakesSends(generation) && Outbound.CanSendNow && !Outbound.HasCallers && !MayHaveDuplicate;

    /// <summary>Records that this number of bytes was moved to the target's socket.</summary>
    internal void CompleteSplice(Connection target, int count)
    {
        Loop.CountReceived(count);
        _tenancy.BytesReceived += count;
        Shard.BytesReceived += count;
        Shard.MessagesReceived++;
        Session.Piping!.Spliced(count);
        target.Outbound.CountSent(count);
        target.Outbound.CountMessage(count);
        Loop.FlushIfMany();
    }
}
