namespace Whimbrel.Relays;

/// <summary>A TLV field of a PROXY header of version 2.</summary>
/// <param name="Type">Type, 0 to 255. 0xE0 to 0xEF are reserved for applications.</param>
/// <param name="Value">Value, at most 65,535 bytes; a copy of the received bytes.</param>
public readonly record struct ProxyExtension(byte Type, ReadOnlyMemory<byte> Value)
{
    /// <summary>The protocol chosen by ALPN.</summary>
    public const byte Alpn = 0x01;

    /// <summary>The host name that the client asked for (SNI), UTF-8.</summary>
    public const byte Authority = 0x02;

    /// <summary>CRC-32C of the header. Checked when a header is read; written on request.</summary>
    public const byte Checksum = 0x03;

    /// <summary>Padding without meaning.</summary>
    public const byte Padding = 0x04;

    /// <summary>An identifier of the connection, up to 128 bytes.</summary>
    public const byte UniqueId = 0x05;

    /// <summary>TLS of the client's connection (<see cref="ProxyHeader.Tls"/>).</summary>
    public const byte Tls = 0x20;

    /// <summary>The name of the network namespace.</summary>
    public const byte NetworkNamespace = 0x30;

    /// <summary>
    /// Connection identifier of Google's Private Service Connect (<see cref="ProxyHeader.GcpConnectionId"/>).
    /// </summary>
    public const byte Gcp = 0xE0;

    /// <summary>
    /// A field of Amazon's load balancers: a subtype, then its value (<see cref="ProxyHeader.AwsEndpointId"/>).
    /// </summary>
    public const byte Aws = 0xEA;

    /// <summary>
    /// A field of Azure's Private Link: a subtype, then its value (<see cref="ProxyHeader.AzureLinkId"/>).
    /// </summary>
    public const byte Azure = 0xEE;
}
