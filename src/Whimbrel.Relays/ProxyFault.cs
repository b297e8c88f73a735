namespace Whimbrel.Relays;

/// <summary>Reason why a PROXY header was rejected or not read.</summary>
public enum ProxyFault
{
    /// <summary>No fault.</summary>
    None,

    /// <summary>The first bytes are no PROXY header of version 1 or 2: the peer sends its protocol directly.</summary>
    NotAHeader,

    /// <summary>
    /// The header is longer than 107 bytes (version 1) or <see cref="ProxyOptions.HeaderLimitBytes"/> (version 2).
    /// </summary>
    TooLong,

    /// <summary>A line of version 1 has a CR or LF before its final CR LF.</summary>
    LineEnd,

    /// <summary>
    /// The fields of a line of version 1 are not the family, two addresses and two ports, separated by one space.
    /// </summary>
    Fields,

    /// <summary>An address of version 1 does not belong to the family of its line.</summary>
    Address,

    /// <summary>A port of version 1 is no number from 0 to 65,535 without leading zeros.</summary>
    Port,

    /// <summary>The signature of version 2 is followed by another version.</summary>
    Version,

    /// <summary>The command is neither LOCAL nor PROXY.</summary>
    Command,

    /// <summary>Version 2 has no such family and transport.</summary>
    Family,

    /// <summary>The header is shorter than the addresses of its family.</summary>
    TooShort,

    /// <summary>A TLV field extends beyond the header, or its length is not allowed for its type.</summary>
    Extension,

    /// <summary>The checksum (CRC-32C) does not match.</summary>
    Checksum,

    /// <summary>The peer is not in <see cref="ProxyOptions.Trusted"/>.</summary>
    Untrusted,

    /// <summary>The header was incomplete after <see cref="ProxyOptions.HeaderTimeout"/>.</summary>
    TimedOut,

    /// <summary>The peer closed the connection before its header was complete.</summary>
    CutOff,
}
