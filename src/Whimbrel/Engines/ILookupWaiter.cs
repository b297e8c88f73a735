namespace Whimbrel.Engines;

/// <summary>A connect attempt that waits for the addresses of a host name.</summary>
internal interface ILookupWaiter
{
    /// <summary>The loop on which <see cref="LookupEnded"/> is called.</summary>
    Loop Loop { get; }

    /// <summary>Called on the loop when the lookup has completed.</summary>
    void LookupEnded(HostLookup lookup);
}
