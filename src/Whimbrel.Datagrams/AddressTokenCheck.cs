namespace Whimbrel;

/// <summary>Result of <see cref="AddressTokens.Check"/>.</summary>
public enum AddressTokenCheck
{
    /// <summary>
    /// The token was issued by this key for this peer and has not expired: the peer receives what is sent to its
    /// address.
    /// </summary>
    Valid,

    /// <summary>The token was issued for this peer and has expired. Answer with a new one.</summary>
    Expired,

    /// <summary>
    /// The token is invalid: modified, issued for another peer, or with a key that is no longer kept.
    /// </summary>
    Wrong,
}
