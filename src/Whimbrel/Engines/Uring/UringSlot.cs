using Whimbrel.Connections;

namespace Whimbrel.Engines.Uring;

/// <summary>Engine data of one resident.</summary>
internal struct UringSlot
{
    internal int Fd;

    /// <summary>Operations without their last completion. The descriptor stays open until it is zero.</summary>
    internal int Running;

    /// <summary>Of a receive that nobody waited for: told when somebody does.</summary>
    internal int HeldError;
    internal OperationSet Has;
    internal bool IsWanted;
    internal bool IsParked;
    internal bool IsDetaching;

    /// <summary>Its receives are large, and made by calls; and how many in a row were small since.</summary>
    internal bool IsLarge;
    internal byte SmallReceives;

    /// <summary>Of those receives.</summary>
    internal ReceiveSize Size;

    /// <summary>There may be something that no poll tells of any more; and only a receive that finds nothing shows that there is not.</summary>
    internal bool IsReady;
    internal bool IsReadyUntilEmpty;

    /// <summary>Receives that failed for lack of memory or buffers, with none between them that brought bytes; and it is begun again after a while only.</summary>
    internal byte Failures;
    internal bool IsResting;

    /// <summary>It is in the list of those that are received from after the next enter.</summary>
    internal bool IsAgain;

    /// <summary>Calls on the descriptor do not wait, for what is spliced; they do again before an operation is pushed that waits.</summary>
    internal bool DoesNotWait;

    /// <summary>Bytes of the send under way, and whether the last one was taken in part only.</summary>
    internal long Offered;
    internal bool WasShort;

    internal DeferredOpen Opening;
}
