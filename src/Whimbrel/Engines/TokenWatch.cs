namespace Whimbrel.Engines;

/// <summary>For what registers with a token while another thread may end it: whoever comes second gives the registration back.</summary>
internal static class TokenWatch
{
    /// <summary>
    /// Stores it, visible to all before the caller looks whether the end has come. Without the fence the processor may look first: then the
    /// one who ends sees no registration, the caller no end, and it stays with the token.
    /// </summary>
    internal static void Store(ref CancellationTokenRegistration place, CancellationTokenRegistration registration)
    {
        place = registration;
        Interlocked.MemoryBarrier();
    }
}
