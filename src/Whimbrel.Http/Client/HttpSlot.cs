namespace Whimbrel.Http;

/// <summary>Reservation of one connection to an origin: taken before the connect attempt, released once, when the
/// connection has ended or the attempt has failed. Under the pool's gate.</summary>
internal sealed class HttpSlot
{
    internal bool IsFree { get; set; }

    /// <summary>Start of the connect attempt, on the clock of <see cref="System.Diagnostics.Stopwatch"/>.</summary>
    internal long ConnectStartedAt { get; set; }
}
