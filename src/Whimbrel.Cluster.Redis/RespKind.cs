namespace Whimbrel.Clusters;

/// <summary>What a server said.</summary>
internal enum RespKind
{
    /// <summary>More bytes are needed.</summary>
    Incomplete,

    /// <summary>No value of RESP, or beyond a limit.</summary>
    Malformed,

    /// <summary>A push whose last element is too large to be brought together.</summary>
    TooLarge,

    /// <summary>Nothing: of RESP3, or one of the two of RESP2.</summary>
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

    /// <summary>The same, with three letters and a colon before the text.</summary>
    Verbatim,

    /// <summary>Values in order.</summary>
    Array,

    /// <summary>Keys and values, one after the other.</summary>
    Map,

    /// <summary>Values in no order.</summary>
    Set,

    /// <summary>Said without being asked: messages and subscriptions.</summary>
    Push,
}
