namespace Whimbrel;

/// <summary>What <see cref="AddressTokens.Check"/> says about a token.</summary>
public enum AddressTokenCheck
{
    /// <summary>We made it, for this peer, and its time is not over: the peer receives what is sent to its address.</summary>
    Valid,

    /// <summary>We made it for this peer, and its time is over. Answer with a new one.</summary>
    Expired,

    /// <summary>Not ours, changed, for somebody else, or of a key that is no longer kept.</summary>
    Wrong,
}
