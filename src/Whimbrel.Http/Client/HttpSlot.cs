namespace Whimbrel.Http;

/// <summary>The right to one connection to an origin: taken before the dial, given back once, when the connection has ended or there is none. Under the pool's gate.</summary>
internal sealed class HttpSlot
{
    internal bool IsFree { get; set; }

    /// <summary>When the dial began, on the clock of <see cref="System.Diagnostics.Stopwatch"/>.</summary>
    internal long DialledAt { get; set; }
}
