using Whimbrel.Connections;

namespace Whimbrel.Engines.Uring;

/// <summary>Engine data of one slot.</summary>
internal struct UringSlot
{
    internal int Fd;

    /// <summary>
    /// Number of operations without their last completion. The descriptor stays open until it is zero.
    /// </summary>
    internal int Running;

    /// <summary>
    /// Error of a receive that ended while the session was not reading; reported when it reads again.
    /// </summary>
    internal int HeldError;
    internal OperationSet Has;
    internal bool IsWanted;
    internal bool IsParked;
    internal bool IsDetaching;

    /// <summary>
    /// True if its receives are large and are direct calls; SmallReceives is the number of consecutive small ones
    /// since.
    /// </summary>
    internal bool IsLarge;
    internal byte SmallReceives;

    /// <summary>Sizes of those receives.</summary>
    internal ReceiveSize Size;

    /// <summary>
    /// True if the socket may have data that no poll reports any more. With IsReadyUntilEmpty, only a receive that
    /// finds nothing clears it.
    /// </summary>
    internal bool IsReady;
    internal bool IsReadyUntilEmpty;

    /// <summary>
    /// Number of consecutive receives that failed for lack of memory or buffers; with IsResting, the next one starts
    /// after a pause.
    /// </summary>
    internal byte Failures;
    internal bool IsResting;

    /// <summary>True if it is in the list of connections to receive from after the next enter.</summary>
    internal bool IsAgain;

    /// <summary>
    /// True if the descriptor is non-blocking, for splice; it is made blocking before an operation is pushed that
    /// waits.
    /// </summary>
    internal bool DoesNotWait;

    /// <summary>Number of bytes of the send in progress. WasShort: the last send was taken only partly.</summary>
    internal long Offered;
    internal bool WasShort;

    internal DeferredOpen Opening;
}
