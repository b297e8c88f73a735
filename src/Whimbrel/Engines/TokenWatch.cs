namespace Whimbrel.Engines;

/// <summary>
/// For objects that register with a token while another thread may complete them: the later of the two releases the
/// registration.
/// </summary>
internal static class TokenWatch
{
    /// <summary>
    /// Stores a registration so that it is visible before the caller checks for completion. Without the fence the
    /// processor may check first. Then the completing thread sees no registration, the caller sees no completion, and
    /// the registration is never released.
    /// </summary>
    internal static void Store(ref CancellationTokenRegistration place, CancellationTokenRegistration registration)
    {
        place = registration;
        Interlocked.MemoryBarrier();
    }
}
