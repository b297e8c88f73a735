namespace Whimbrel.Engines;

/// <summary>Who asked for the addresses of a host name.</summary>
internal interface ILookupWaiter
{
    /// <summary>Where it is told.</summary>
    Loop Loop { get; }

    /// <summary>The answer is there. On the loop.</summary>
    void LookupEnded(HostLookup lookup);
}
