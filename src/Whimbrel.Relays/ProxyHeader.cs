using System.Buffers;
using System.Buffers.Binary;
using System.Net;
using System.Text;

namespace Whimbrel.Relays;

/// <summary>
/// What a proxy says of the connection that it passes on (the PROXY protocol of HAProxy, versions 1 and 2): who the client is, and where it
/// had connected to. Never changes; any thread.
/// </summary>
public sealed class ProxyHeader
{
    /// <summary>The most bytes that a header of version 2 can have.</summary>
    public const int MaxLength = ProxyBinary.HeadLength + ushort.MaxValue;

    /// <summary>How many bytes of version 2 are taken by default. The specification's own extensions fit; client certificates do not.</summary>
    public const int DefaultLimit = 4096;

    private const byte Subtype = 1; // of the fields of AWS and Azure: an identity

    /// <summary>A header for the connection of a client.</summary>
    /// <param name="source">The client. An <see cref="IPEndPoint"/>, or a Unix path.</param>
    /// <param name="destination">Where it had connected to, of the same family.</param>
    /// <exception cref="ArgumentException">The two are not of one family, or of none that the protocol has. IPv6 and IPv4 together become IPv6.</exception>
    public ProxyHeader(EndPoint source, EndPoint destination)
    {
        ArgumentNullException.ThrowIfNull(source);
        ArgumentNullException.ThrowIfNull(destination);
        bool areUnix = source is System.Net.Sockets.UnixDomainSocketEndPoint && destination is System.Net.Sockets.UnixDomainSocketEndPoint;
        if (!areUnix && (source is not IPEndPoint || destination is not IPEndPoint)) throw new ArgumentException("A PROXY header has two addresses of IP, or two Unix paths.", nameof(source));
        (Source, Destination) = (source, destination);
    }

    internal ProxyHeader(int version, bool isLocal, EndPoint? source, EndPoint? destination, IReadOnlyList<ProxyExtension> extensions)
    {
        Version = version;
        IsLocal = isLocal;
        (Source, Destination, Extensions) = (source, destination, extensions);
    }

    /// <summary>A header that says: this connection is the proxy's own, to see whether the server lives. It stands for no client.</summary>
    public static ProxyHeader Local { get; } = new(2, true, null, null, []);

    /// <summary>A header for a connection with these ends, as a session has them; one that does not know the client when they are of no family that the protocol has.</summary>
    /// <param name="remote">The client, or null.</param>
    /// <param name="local">Where it had connected to, or null.</param>
    public static ProxyHeader Of(EndPoint? remote, EndPoint? local) => (remote, local) switch
    {
        (IPEndPoint, IPEndPoint) or (System.Net.Sockets.UnixDomainSocketEndPoint, System.Net.Sockets.UnixDomainSocketEndPoint) => new ProxyHeader(remote, local),
        _ => new ProxyHeader(2, false, null, null, []),
    };

    /// <summary>1 or 2: how it was received. 2 for one that was made here.</summary>
    public int Version { get; } = 2;

    /// <summary>The connection is the proxy's own (a health check).</summary>
    public bool IsLocal { get; }

    /// <summary>The client, or null when the proxy does not know it (UNKNOWN, UNSPEC, LOCAL): the connection's own address is all there is then.</summary>
    public EndPoint? Source { get; }

    /// <summary>Where the client had connected to, or null like <see cref="Source"/>.</summary>
    public EndPoint? Destination { get; }

    /// <summary>What is said beyond the addresses, in its order. Always empty with version 1.</summary>
    public IReadOnlyList<ProxyExtension> Extensions { get; init; } = [];

    /// <summary>The host name that the client asked for (SNI), or null.</summary>
    public string? Authority => Value(ProxyExtension.Authority) is { } value ? Encoding.UTF8.GetString(value.Span) : null;

    /// <summary>The protocol that client and proxy chose by ALPN, or null.</summary>
    public string? ApplicationProtocol => Value(ProxyExtension.Alpn) is { } value ? Encoding.UTF8.GetString(value.Span) : null;

    /// <summary>Identity that the proxy gave the connection, up to 128 bytes, or null.</summary>
    public ReadOnlyMemory<byte>? UniqueId => Value(ProxyExtension.UniqueId);

    /// <summary>Name of the network namespace that the client's connection is in, or null.</summary>
    public string? NetworkNamespace => Value(ProxyExtension.NetworkNamespace) is { } value ? Encoding.UTF8.GetString(value.Span) : null;

    /// <summary>Identity of the VPC endpoint that the client came by (<c>vpce-08d2bf15fac5001c9</c>), from a load balancer of AWS; null without such a field.</summary>
    public string? AwsEndpointId => Value(ProxyExtension.Aws) is { Length: > 1 } value && value.Span[0] == Subtype ? Encoding.ASCII.GetString(value.Span[1..]) : null;

    /// <summary>Link identifier of the private endpoint that the client came by, from Azure's Private Link; null without such a field.</summary>
    public uint? AzureLinkId =>
        Value(ProxyExtension.Azure) is { Length: 1 + sizeof(uint) } value && value.Span[0] == Subtype ? BinaryPrimitives.ReadUInt32LittleEndian(value.Span[1..]) : null;

    /// <summary>Identity of the connection in Google's Private Service Connect; null without such a field.</summary>
    public ulong? GcpConnectionId => Value(ProxyExtension.Gcp) is { Length: sizeof(ulong) } value ? BinaryPrimitives.ReadUInt64BigEndian(value.Span) : null;

    /// <summary>What the client's TLS was, or null when the proxy does not say.</summary>
    public ProxyTls? Tls => Value(ProxyExtension.Tls) is { Length: >= ProxyTls.HeadLength } value ? ProxyTls.Read(value) : null;

    /// <summary>
    /// Reads a header from the first bytes of a connection. Says as soon as it can be said that they are none; the answer does not depend on how
    /// the bytes came in pieces.
    /// </summary>
    /// <param name="bytes">All that has come so far.</param>
    /// <param name="header">The header, when it is whole.</param>
    /// <param name="length">How many bytes it has; what follows belongs to the protocol behind it.</param>
    /// <param name="fault">With <see cref="OperationStatus.InvalidData"/>: which rule is broken. No more bytes mend it.</param>
    /// <param name="limit">The most bytes of version 2, 16 to <see cref="MaxLength"/>.</param>
    /// <returns><c>Done</c>, <c>NeedMoreData</c> or <c>InvalidData</c>.</returns>
    public static OperationStatus Read(ReadOnlySpan<byte> bytes, out ProxyHeader? header, out int length, out ProxyFault fault, int limit = DefaultLimit)
    {
        if (limit is < ProxyBinary.HeadLength or > MaxLength) throw new ArgumentOutOfRangeException(nameof(limit), limit, $"{ProxyBinary.HeadLength} to {MaxLength}");
        header = null;
        length = 0;
        fault = ProxyFault.None;
        if (bytes.IsEmpty) return OperationStatus.NeedMoreData;
        if (StartsAs(bytes, ProxyBinary.Signature)) return ProxyBinary.Read(bytes, limit, out header, out length, out fault);
        if (StartsAs(bytes, ProxyLine.Signature)) return ProxyLine.Read(bytes, out header, out length, out fault);
        fault = ProxyFault.NotAHeader;
        return OperationStatus.InvalidData;
    }

    /// <summary>Writes it as version 2.</summary>
    /// <param name="output">Where to.</param>
    /// <param name="hasChecksum">With a CRC-32C behind the extensions.</param>
    /// <exception cref="InvalidOperationException">It has more than <see cref="MaxLength"/> bytes, or a checksum among its extensions.</exception>
    public void Write(IBufferWriter<byte> output, bool hasChecksum = false) => ProxyBinary.Write(this, output, hasChecksum);

    /// <summary>Writes it as version 1: a line. What is no IP address becomes <c>UNKNOWN</c>.</summary>
    /// <param name="output">Where to.</param>
    /// <exception cref="InvalidOperationException">It has extensions, or is LOCAL: version 1 cannot say that.</exception>
    public void WriteLine(IBufferWriter<byte> output) => ProxyLine.Write(this, output);

    /// <summary>For the log.</summary>
    public override string ToString() => IsLocal ? "local" : Source is null ? "unknown" : $"{Source} to {Destination}";

    internal ProxyHeader With(IReadOnlyList<ProxyExtension> extensions) => extensions.Count == 0 ? this : new(Version, IsLocal, Source, Destination, extensions);

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
