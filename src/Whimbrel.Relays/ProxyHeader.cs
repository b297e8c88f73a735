using System.Buffers;
using System.Buffers.Binary;
using System.Net;
using System.Text;

namespace Whimbrel.Relays;

/// <summary>
/// A header of HAProxy's PROXY protocol, versions 1 and 2: the addresses of the client and of the server it connected
/// to. Immutable and thread-safe.
/// </summary>
public sealed class ProxyHeader
{
    /// <summary>Maximum length of a header of version 2, in bytes.</summary>
    public const int MaxLength = ProxyBinary.HeadLength + ushort.MaxValue;

    /// <summary>
    /// Default limit for a header of version 2, in bytes. The extensions of the specification fit; client certificates
    /// do not.
    /// </summary>
    public const int DefaultLimit = 4096;

    private const byte Subtype = 1; // of the fields of AWS and Azure: an identifier

    /// <summary>Creates a header for the connection of a client.</summary>
    /// <param name="source">Address of the client: an <see cref="IPEndPoint"/> or a Unix path.</param>
    /// <param name="destination">
    /// Address that the client connected to. If only one of the two is IPv4, it is written as IPv6.
    /// </param>
    /// <exception cref="ArgumentException">The addresses are neither two of IP nor two Unix paths.</exception>
    public ProxyHeader(EndPoint source, EndPoint destination)
    {
        ArgumentNullException.ThrowIfNull(source);
        ArgumentNullException.ThrowIfNull(destination);
        bool areUnix = source is System.Net.Sockets.UnixDomainSocketEndPoint
            && destination is System.Net.Sockets.UnixDomainSocketEndPoint;
        if (!areUnix && (source is not IPEndPoint || destination is not IPEndPoint))
            throw new ArgumentException("A PROXY header has two addresses of IP, or two Unix paths.", nameof(source));
        (Source, Destination) = (source, destination);
    }

    internal ProxyHeader(int version, bool isLocal, EndPoint? source, EndPoint? destination,
        IReadOnlyList<ProxyExtension> extensions)
    {
        Version = version;
        IsLocal = isLocal;
        (Source, Destination, Extensions) = (source, destination, extensions);
    }

    /// <summary>The header LOCAL: the connection belongs to the proxy itself, for example to a health check.</summary>
    public static ProxyHeader Local { get; } = new(2, true, null, null, []);

    /// <summary>
    /// Creates a header from the end points of a session. It has no addresses (UNSPEC) unless both are of IP or both
    /// are Unix paths.
    /// </summary>
    /// <param name="remote">Address of the client, or null.</param>
    /// <param name="local">Address that the client connected to, or null.</param>
    public static ProxyHeader Of(EndPoint? remote, EndPoint? local) => (remote, local) switch
    {
        (IPEndPoint, IPEndPoint) or (System.Net.Sockets.UnixDomainSocketEndPoint,
            System.Net.Sockets.UnixDomainSocketEndPoint) => new ProxyHeader(remote, local),
        _ => new ProxyHeader(2, false, null, null, []),
    };

    /// <summary>Version that was received, 1 or 2. 2 for a header that was created locally.</summary>
    public int Version { get; } = 2;

    /// <summary>Whether the connection belongs to the proxy itself (a health check).</summary>
    public bool IsLocal { get; }

    /// <summary>Address of the client. Null if the proxy does not know it (UNKNOWN, UNSPEC, LOCAL).</summary>
    public EndPoint? Source { get; }

    /// <summary>Address that the client connected to. Null if <see cref="Source"/> is.</summary>
    public EndPoint? Destination { get; }

    /// <summary>TLV fields in the order of the header. Empty with version 1.</summary>
    public IReadOnlyList<ProxyExtension> Extensions { get; init; } = [];

    /// <summary>Host name of the client's TLS handshake (SNI), or null.</summary>
    public string? Authority =>
        Value(ProxyExtension.Authority) is { } value ? Encoding.UTF8.GetString(value.Span) : null;

    /// <summary>Protocol that client and proxy negotiated by ALPN, or null.</summary>
    public string? ApplicationProtocol =>
        Value(ProxyExtension.Alpn) is { } value ? Encoding.UTF8.GetString(value.Span) : null;

    /// <summary>Identifier that the proxy gave the connection, up to 128 bytes, or null.</summary>
    public ReadOnlyMemory<byte>? UniqueId => Value(ProxyExtension.UniqueId);

    /// <summary>Name of the network namespace of the client's connection, or null.</summary>
    public string? NetworkNamespace =>
        Value(ProxyExtension.NetworkNamespace) is { } value ? Encoding.UTF8.GetString(value.Span) : null;

    /// <summary>
    /// Identifier of the client's VPC endpoint (<c>vpce-08d2bf15fac5001c9</c>), from a load balancer of AWS; otherwise
    /// null.
    /// </summary>
    public string? AwsEndpointId => Value(ProxyExtension.Aws) is { Length: > 1 } value && value.Span[0] == Subtype
        ? Encoding.ASCII.GetString(value.Span[1..])
        : null;

    /// <summary>Link identifier of the client's private endpoint, from Azure's Private Link; otherwise null.</summary>
    public uint? AzureLinkId =>
        Value(ProxyExtension.Azure) is { Length: 1 + sizeof(uint) } value && value.Span[0] == Subtype
            ? BinaryPrimitives.ReadUInt32LittleEndian(value.Span[1..])
            : null;

    /// <summary>Identifier of the connection in Google's Private Service Connect; otherwise null.</summary>
    public ulong? GcpConnectionId => Value(ProxyExtension.Gcp) is { Length: sizeof(ulong) } value
        ? BinaryPrimitives.ReadUInt64BigEndian(value.Span)
        : null;

    /// <summary>TLS of the client's connection, or null if the header has no such field.</summary>
    public ProxyTls? Tls =>
        Value(ProxyExtension.Tls) is { Length: >= ProxyTls.HeadLength } value ? ProxyTls.Read(value) : null;

    /// <summary>
    /// Reads a header from the first bytes of a connection. Invalid bytes are reported as early as possible. The result
    /// does not depend on how the bytes were split.
    /// </summary>
    /// <param name="bytes">All bytes received so far.</param>
    /// <param name="header">The header, if it is complete.</param>
    /// <param name="length">
    /// Length of the header in bytes. The bytes after it belong to the application's protocol.
    /// </param>
    /// <param name="fault">
    /// With <see cref="OperationStatus.InvalidData"/> the reason. Further bytes do not change it.
    /// </param>
    /// <param name="limit">Maximum length of a header of version 2, 16 to <see cref="MaxLength"/> bytes.</param>
    /// <returns><c>Done</c>, <c>NeedMoreData</c> or <c>InvalidData</c>.</returns>
    public static OperationStatus Read(ReadOnlySpan<byte> bytes, out ProxyHeader? header, out int length,
        out ProxyFault fault, int limit = DefaultLimit)
    {
        if (limit is < ProxyBinary.HeadLength or > MaxLength)
            throw new ArgumentOutOfRangeException(nameof(limit), limit, $"{ProxyBinary.HeadLength} to {MaxLength}");
        header = null;
        length = 0;
        fault = ProxyFault.None;
        if (bytes.IsEmpty) return OperationStatus.NeedMoreData;
        if (StartsAs(bytes, ProxyBinary.Signature))
            return ProxyBinary.Read(bytes, limit, out header, out length, out fault);
        if (StartsAs(bytes, ProxyLine.Signature)) return ProxyLine.Read(bytes, out header, out length, out fault);
        fault = ProxyFault.NotAHeader;
        return OperationStatus.InvalidData;
    }

    /// <summary>Writes the header as version 2.</summary>
    /// <param name="output">Destination of the bytes.</param>
    /// <param name="hasChecksum">True to append a CRC-32C.</param>
    /// <exception cref="InvalidOperationException">
    /// The header is longer than <see cref="MaxLength"/>, or <see cref="Extensions"/> has a checksum.
    /// </exception>
    public void Write(IBufferWriter<byte> output, bool hasChecksum = false) =>
        ProxyBinary.Write(this, output, hasChecksum);

    /// <summary>
    /// Writes the header as version 1, a line. Without IP addresses the line is <c>PROXY UNKNOWN</c>.
    /// </summary>
    /// <param name="output">Destination of the bytes.</param>
    /// <exception cref="InvalidOperationException">
    /// The header has extensions or is LOCAL, which version 1 cannot express.
    /// </exception>
    public void WriteLine(IBufferWriter<byte> output) => ProxyLine.Write(this, output);

    /// <summary>Returns the addresses as text, for logs.</summary>
    public override string ToString() => IsLocal ? "local" : Source is null ? "unknown" : $"{Source} to {Destination}";

    internal ProxyHeader With(IReadOnlyList<ProxyExtension> extensions) =>
        extensions.Count == 0 ? this : new(Version, IsLocal, Source, Destination, extensions);

    private ReadOnlyMemory<byte>? Value(byte type)
    {
        foreach (ProxyExtension extension in Extensions)
        {
            if (extension.Type == type) return extension.Value;
        }

        return null;
    }

    private static bool StartsAs(ReadOnlySpan<byte> bytes, ReadOnlySpan<byte> signature)
    {
        int common = Math.Min(bytes.Length, signature.Length);
        return bytes[..common].SequenceEqual(signature[..common]);
    }
}
