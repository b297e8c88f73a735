namespace Whimbrel.Relays;

/// <summary>A field behind the addresses of a PROXY header of version 2 (a TLV).</summary>
/// <param name="Type">Its type, 0 to 255; the constants here are those of the specification, 0xE0 to 0xEF are everybody's own.</param>
/// <param name="Value">Its bytes, at most 65,535; a copy of what was received.</param>
public readonly record struct ProxyExtension(byte Type, ReadOnlyMemory<byte> Value)
{
    /// <summary>The protocol chosen by ALPN.</summary>
    public const byte Alpn = 0x01;

    /// <summary>The host name that the client asked for (SNI), UTF-8.</summary>
    public const byte Authority = 0x02;

    /// <summary>CRC-32C of the header; checked when it is read, written when it is asked for.</summary>
    public const byte Checksum = 0x03;

    /// <summary>Nothing: it fills up.</summary>
    public const byte Padding = 0x04;

    /// <summary>An identity of the connection, up to 128 bytes.</summary>
    public const byte UniqueId = 0x05;

    /// <summary>What the client's TLS was (<see cref="ProxyHeader.Tls"/>).</summary>
    public const byte Tls = 0x20;

    /// <summary>The name of the network namespace.</summary>
    public const byte NetworkNamespace = 0x30;

    /// <summary>Identity of a connection of Google's Private Service Connect (<see cref="ProxyHeader.GcpConnectionId"/>).</summary>
    public const byte Gcp = 0xE0;

    /// <summary>A field of Amazon's load balancers: a subtype, then its value (<see cref="ProxyHeader.AwsEndpointId"/>).</summary>
    public const byte Aws = 0xEA;

    /// <summary>A field of Azure's Private Link: a subtype, then its value (<see cref="ProxyHeader.AzureLinkId"/>).</summary>
    public const byte Azure = 0xEE;
}
