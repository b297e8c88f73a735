namespace Whimbrel.Relays;

/// <summary>Which rule a PROXY header broke, or why none was read.</summary>
public enum ProxyFault
{
    /// <summary>None.</summary>
    None,

    /// <summary>The first bytes are neither a header of version 1 nor one of version 2: the peer speaks its protocol directly.</summary>
    NotAHeader,

    /// <summary>Longer than allowed: 107 bytes with version 1, <see cref="ProxyOptions.HeaderLimitBytes"/> with version 2.</summary>
    TooLong,

    /// <summary>A line of version 1 with a CR or LF anywhere but as its end, CR LF.</summary>
    LineEnd,

    /// <summary>A line of version 1 whose fields are not the word, two addresses and two ports, each behind one space.</summary>
    Fields,

    /// <summary>An address of version 1 that is not one of the family the line says.</summary>
    Address,

    /// <summary>A port of version 1 that is not a number from 0 to 65,535 without leading zeros.</summary>
    Port,

    /// <summary>A version other than 2 behind the signature of version 2.</summary>
    Version,

    /// <summary>A command that is neither LOCAL nor PROXY.</summary>
    Command,

    /// <summary>A family and transport that version 2 does not have.</summary>
    Family,

    /// <summary>Shorter than the addresses of its family.</summary>
    TooShort,

    /// <summary>Fields behind the addresses (TLVs) that reach beyond the header, or whose content is shorter or longer than their type allows.</summary>
    Extension,

    /// <summary>The checksum (CRC-32C) is not that of the bytes.</summary>
    Checksum,

    /// <summary>The peer is not in <see cref="ProxyOptions.Trusted"/>.</summary>
    Untrusted,

    /// <summary>The whole header did not come within <see cref="ProxyOptions.HeaderTimeout"/>.</summary>
    TimedOut,

    /// <summary>The peer ended before its header was whole.</summary>
    CutOff,
}
