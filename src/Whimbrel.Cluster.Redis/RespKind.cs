namespace Whimbrel.Clusters;

/// <summary>Kind of a RESP value, or the result of reading one.</summary>
internal enum RespKind
{
    /// <summary>More bytes are needed.</summary>
    Incomplete,

    /// <summary>The bytes are no RESP value, or exceed a limit.</summary>
    Malformed,

    /// <summary>A push with a last element above the size limit.</summary>
    TooLarge,

    /// <summary>Null of RESP3, or one of the two nulls of RESP2.</summary>
    Null,

    /// <summary>A line.</summary>
    Text,

    /// <summary>An error, as a line or with a length.</summary>
    Error,

    /// <summary>An integer.</summary>
    Number,

    /// <summary>An integer of any size.</summary>
    BigNumber,

    /// <summary>A number with a fraction, or <c>inf</c>, <c>-inf</c>, <c>nan</c>.</summary>
    Double,

    /// <summary><c>t</c> or <c>f</c>.</summary>
    Boolean,

    /// <summary>Bytes with a length.</summary>
    Bulk,

    /// <summary>Bytes with a length; three letters and a colon precede the text.</summary>
    Verbatim,

    /// <summary>Values in order.</summary>
    Array,

    /// <summary>Alternating keys and values.</summary>
    Map,

    /// <summary>Unordered values.</summary>
    Set,

    /// <summary>Out-of-band data: messages and subscriptions.</summary>
    Push,
}
