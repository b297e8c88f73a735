using System.Diagnostics.CodeAnalysis;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;
using Whimbrel.Diagnostics;
using Whimbrel.Linux;

namespace Whimbrel;

/// <summary>
/// Address as text, in the one form that options, configuration and the tool use:
/// <list type="bullet">
/// <item><c>tcp://HOST:PORT</c>. The host is a name, an IPv4 address, an IPv6 address in brackets (with a scope as in
/// <c>[fe80::1%eth0]</c>), or <c>*</c> for every address of this machine, IPv4 and IPv6. The port is a number or the
/// name of a service.</item>
/// <item><c>tls://HOST:PORT</c>: the same with TLS, for which a server needs options
/// (<see cref="ServerOptions.Tls"/>).</item>
/// <item><c>http://HOST:PORT</c> and <c>https://HOST:PORT</c>, for HTTP servers only (a plain <see cref="Server"/> or
/// <see cref="Client"/> rejects them): the same as <c>tcp://</c> and <c>tls://</c>. The default port is 80 or 443, a
/// slash may follow, and <c>+</c> is another form of <c>*</c>.</item>
/// <item><c>unix:PATH</c>; <c>unix:@NAME</c> is an abstract name of Linux. The path is not decoded.</item>
/// <item><c>systemd:NAME</c>: the listening sockets that systemd passed to this process with this name
/// (<c>FileDescriptorName=</c> of the socket unit); <c>systemd:</c> for all. <c>fd:NUMBER</c>: a listening socket that
/// another process left open for this one (<see cref="InheritedSocket"/>). For servers, on Linux.</item>
/// <item><c>memory://NAME</c>, on the memory engine of Whimbrel.Testing.</item>
/// </list>
/// Parsing resolves nothing except the interface of a scope. A value: equal if the text means the same. Any thread.
/// </summary>
public sealed class NetworkAddress : IEquatable<NetworkAddress>
{
    internal const string Tcp = "tcp";
    internal const string Tls = "tls";
    internal const string Unix = "unix";
    internal const string Memory = "memory";
    internal const string Systemd = "systemd";
    internal const string Descriptor = "fd";

    private const string Forms = "right would be tcp://host:port or unix:/path";
    private const int MaxHostLength = 253;
    private const int MaxLabelLength = 63;
    private const int MaxServiceLength = 64;

    private readonly IPAddress? _literal;

    private NetworkAddress(string scheme, string host, int port = -1, string? service = null, IPAddress? literal = null)
    {
        Scheme = scheme;
        Host = host;
        Port = port;
        Service = service;
        _literal = literal;
    }

    /// <summary>
    /// Scheme in lower case: <c>tcp</c>, <c>tls</c>, <c>unix</c>, <c>memory</c>, <c>systemd</c> or <c>fd</c>.
    /// </summary>
    public string Scheme { get; }

    /// <summary>
    /// Host without brackets and in lower case; for a Unix address the path, for <c>memory</c> and <c>systemd</c> the
    /// name, for <c>fd</c> the number.
    /// </summary>
    public string Host { get; }

    /// <summary>Port, 0 to 65535; -1 if <see cref="Service"/> is set or there is none.</summary>
    public int Port { get; }

    /// <summary>Name of the service given in place of the port, or null.</summary>
    public string? Service { get; }

    /// <summary>True for <c>tcp://*</c> and <c>tls://*</c>: every address of this machine.</summary>
    public bool IsWildcard => Scheme is Tcp or Tls && Host == "*";

    // ------------------------------------------------------------------ from text

    /// <summary>
    /// Parses an address. Throws <see cref="FormatException"/> with the mistake and the correct form.
    /// </summary>
    /// <param name="text">Address, for example <c>tcp://localhost:80</c>.</param>
    public static NetworkAddress Parse(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return TryParse(text, out NetworkAddress? address, out string? mistake)
            ? address
            : throw new FormatException(mistake);
    }

    /// <summary>Parses an address. Never throws.</summary>
    /// <param name="text">Address, for example <c>tcp://localhost:80</c>.</param>
    /// <param name="address">The address, or null.</param>
    public static bool TryParse([NotNullWhen(true)] string? text, [NotNullWhen(true)] out NetworkAddress? address) =>
        TryParse(text, out address, out _);

    /// <summary>Parses an address. Never throws.</summary>
    /// <param name="text">Address, for example <c>tcp://localhost:80</c>.</param>
    /// <param name="address">The address, or null.</param>
    /// <param name="mistake">The mistake and the correct form in one sentence, or null.</param>
    public static bool TryParse([NotNullWhen(true)] string? text, [NotNullWhen(true)] out NetworkAddress? address,
        [NotNullWhen(false)] out string? mistake)
    {
        address = null;
        string? wrong = text is null ? $"it is missing; {Forms}" : Read(text, out address);
        mistake = wrong is null ? null : $"'{Escaped.Of(text)}' is no address: {wrong}.";
        return wrong is null;
    }

    /// <summary>Parses the text. Returns the mistake, or null.</summary>
    private static string? Read(string text, out NetworkAddress? address)
    {
        address = null;
        if (text.Length == 0) return $"it is empty; {Forms}";
        foreach (char c in text)
        {
            if (char.IsControl(c)) return $"it contains the character U+{(int)c:X4}";
        }

        if (char.IsWhiteSpace(text[0]) || char.IsWhiteSpace(text[^1])) return "it begins or ends with white space";
        if (text.StartsWith("unix:", StringComparison.OrdinalIgnoreCase)) return ReadPath(text[5..], out address);
        if (text.StartsWith("systemd:", StringComparison.OrdinalIgnoreCase))
            return ReadSystemd(text["systemd:".Length..], out address);
        if (text.StartsWith("fd:", StringComparison.OrdinalIgnoreCase)) return ReadDescriptor(text[3..], out address);
        int slashes = text.IndexOf("://", StringComparison.Ordinal);
        if (slashes <= 0) return NoScheme(text);
        string rest = text[(slashes + 3)..];
        string scheme = text[..slashes].ToLowerInvariant();
        switch (scheme)
        {
            case Tcp:
                return ReadHostAndPort(rest, out address);
            case "tls":
                string? wrong = ReadHostAndPort(rest, out address)
                    ?.Replace("tcp://", "tls://", StringComparison.Ordinal);
                if (address is { } tcp)
                    address = new NetworkAddress(Tls, tcp.Host, tcp.Port, tcp.Service, tcp._literal);
                return wrong;
            case "http" or "https":
                return ReadHttp(scheme, rest, out address);
            case Memory:
                if (rest.Length == 0) return "the name is missing; right would be memory://name";
                address = new NetworkAddress(Memory, rest);
                return null;
            case "udp":
                return "'udp' is no scheme here: datagrams have a DatagramSocket (package Whimbrel.Datagrams), which "
                    + "takes an IPEndPoint";
            default:
                return $"'{scheme}' is no scheme here, allowed tcp, tls, http, https, unix and memory";
        }
    }

    /// <summary>
    /// Parses the forms that are usual for HTTP servers: without a port, with a slash at the end, with + for every
    /// address.
    /// </summary>
    private static string? ReadHttp(string scheme, string rest, out NetworkAddress? address)
    {
        bool isTls = scheme == "https";
        string authority = rest.EndsWith('/') ? rest[..^1] : rest;
        if (authority == "+" || authority.StartsWith("+:", StringComparison.Ordinal)) authority = "*" + authority[1..];
        if (authority.Length > 0 && authority.LastIndexOf(':') <= authority.LastIndexOf(']'))
            authority += isTls ? ":443" : ":80";
        string? wrong = ReadHostAndPort(authority, out address)
            ?.Replace("tcp://", $"{scheme}://", StringComparison.Ordinal);
        if (isTls && address is { } tcp)
            address = new NetworkAddress(Tls, tcp.Host, tcp.Port, tcp.Service, tcp._literal);
        return wrong;
    }

    private static string NoScheme(string text)
    {
        if (text[0] is '/' or '@') return $"the scheme is missing; right would be unix:{text}";
        if (text.StartsWith("tcp:", StringComparison.OrdinalIgnoreCase))
            return $"'//' is missing after 'tcp:'; right would be tcp://{text[4..].TrimStart('/')}";
        if (text.Contains("://", StringComparison.Ordinal)) return $"the scheme is missing before '://'; {Forms}";
        return text.LastIndexOf(':') > text.LastIndexOf(']')
            ? $"the scheme is missing; right would be tcp://{text}"
            : $"the scheme and the port are missing; right would be tcp://{text}:80";
    }

    private static string? ReadPath(string path, out NetworkAddress? address)
    {
        address = null;
        // The form of RFC 3986, with an empty authority. A path may begin with two slashes, but that is not intended
        // here.
        if (path.StartsWith("//", StringComparison.Ordinal))
        {
            if (path is [_, _, '/', ..]) path = path[2..];
            else return $"a host has no meaning for a Unix path; right would be unix:/{path.TrimStart('/')}";
        }

        if (path is "" or "@")
            return path.Length == 0
                ? "the path is missing; right would be unix:/path"
                : "the abstract name is missing; right would be unix:@name";
        if (Encoding.UTF8.GetByteCount(path) > SocketAbi.MaxUnixPathBytes)
            return $"the path has {Encoding.UTF8.GetByteCount(path)} bytes, allowed 1 to {SocketAbi.MaxUnixPathBytes}";
        address = new NetworkAddress(Unix, path);
        return null;
    }

    private static string? ReadSystemd(string name, out NetworkAddress? address)
    {
        address = null;
        if (name.Contains(':', StringComparison.Ordinal) || name.Contains('/', StringComparison.Ordinal))
            return "a name of systemd has no ':' and no '/'; right would be systemd:name, or systemd: for all sockets";
        address = new NetworkAddress(Systemd, name);
        return null;
    }

    private static string? ReadDescriptor(string number, out NetworkAddress? address)
    {
        address = null;
        if (!IsNumber(number) || number.Length > 7)
            return $"'{number}' is no number of a descriptor; right would be fd:3";
        address = new NetworkAddress(Descriptor,
            int.Parse(number, CultureInfo.InvariantCulture).ToString(CultureInfo.InvariantCulture));
        return null;
    }

    private static string? ReadHostAndPort(string rest, out NetworkAddress? address)
    {
        address = null;
        if (rest.Length == 0) return "the host and the port are missing; right would be tcp://host:port";
        int end = rest.IndexOfAny(['/', '?', '#']);
        if (end >= 0) return $"'{rest[end..]}' follows the port; an address ends there";
        if (rest.Contains('@', StringComparison.Ordinal))
            return "a user before '@' has no meaning here; right would be tcp://host:port";
        string? wrong = SplitPort(rest, out string host, out string port);
        wrong ??= ReadHost(rest[0] == '[', ref host, out IPAddress? literal, port)
            ?? ReadPort(port, host, literal, out address);
        return wrong;
    }

    private static string? SplitPort(string rest, out string host, out string port)
    {
        host = port = "";
        bool isBracketed = rest[0] == '[';
        int bracket = isBracketed ? rest.IndexOf(']', StringComparison.Ordinal) : -1;
        if (isBracketed && bracket < 0) return "the ']' after the IPv6 address is missing";
        int colon = isBracketed ? bracket + 1 : rest.LastIndexOf(':');
        if (isBracketed && colon < rest.Length && rest[colon] != ':')
            return $"'{rest[colon..]}' follows the ']'; right would be ':' and a port";
        if (colon < 0 || colon == rest.Length) return $"the port is missing; right would be tcp://{rest}:80";
        host = isBracketed ? rest[1..bracket] : rest[..colon];
        port = rest[(colon + 1)..];
        if (isBracketed || !host.Contains(':', StringComparison.Ordinal)) return null;
        return IPAddress.TryParse(rest, out _) || IPAddress.TryParse(host, out _)
            ? $"an IPv6 address stands in brackets; right would be tcp://[{host}]:{port}"
            : "it has more than one ':'; right would be tcp://host:port";
    }

    // ------------------------------------------------------------------ host and port

    private static string? ReadHost(bool isBracketed, ref string host, out IPAddress? literal, string port)
    {
        literal = null;
        if (isBracketed) return ReadIPv6(ref host, out literal);
        if (host == "*") return null;
        if (host.Length == 0)
            return $"the host is missing; right would be tcp://localhost:{port}, or tcp://*:{port} for every address "
                + $"of this machine";
        if (LooksLikeIPv4(host))
            return TryIPv4(host, out literal)
                ? null
                : $"'{host}' is no IPv4 address: that is four numbers from 0 to 255 without leading zeros";
        return ReadName(ref host);
    }

    private static string? ReadIPv6(ref string host, out IPAddress? literal)
    {
        int percent = host.IndexOf('%', StringComparison.Ordinal);
        string plain = percent < 0 ? host : host[..percent];
        if (!IPAddress.TryParse(plain, out literal) || literal.AddressFamily != AddressFamily.InterNetworkV6
            || plain.Contains('[', StringComparison.Ordinal))
        {
            return $"'{host}' in brackets is no IPv6 address";
        }

        if (percent >= 0)
        {
            string scope = host[(percent + 1)..];
            if (!IPAddress.TryParse(host, out literal) || literal.ScopeId == 0)
                return $"this machine has no network interface '{scope}'";
        }

        host = literal.ToString();
        return null;
    }

    // Forms that IPAddress parses as an address although they are hardly meant as one: "7", "010.0.0.1", "0x7f000001".
    private static bool LooksLikeIPv4(string host)
    {
        string last = host.TrimEnd('.');
        last = last[(last.LastIndexOf('.') + 1)..];
        return last.Length > 0 && (IsNumber(last) || last.StartsWith("0x", StringComparison.OrdinalIgnoreCase));
    }

    internal static bool TryIPv4(string host, out IPAddress? literal)
    {
        literal = null;
        string[] parts = host.Split('.');
        if (parts.Length != 4) return false;
        foreach (string part in parts)
        {
            if (!IsNumber(part) || part.Length > 3 || (part.Length > 1 && part[0] == '0')) return false;
        }

        return IPAddress.TryParse(host, out literal);
    }

    private static bool IsNumber(string text)
    {
        foreach (char c in text)
        {
            if (!char.IsAsciiDigit(c)) return false;
        }

        return text.Length > 0;
    }

    private static string? ReadName(ref string host)
    {
        string name = host;
        if (!Ascii.IsValid(name))
        {
            try
            {
                name = new IdnMapping().GetAscii(name);
            }
            catch (ArgumentException)
            {
                return $"'{host}' is no host name";
            }
        }

        if (name.Length > MaxHostLength + (name[^1] == '.' ? 1 : 0))
            return $"the host name has {name.Length} characters, allowed 1 to {MaxHostLength}";
        foreach (string label in (name[^1] == '.' ? name[..^1] : name).Split('.'))
        {
            if (label.Length is 0 or > MaxLabelLength)
                return label.Length == 0 ? $"'{host}' has an empty part between its dots" : $"the part '{label}' of "
                    + $"the host name has {label.Length} characters, allowed 1 to {MaxLabelLength}";
            foreach (char c in label)
            {
                // The standards do not allow the underscore in host names, but many real networks use it.
                if (!char.IsAsciiLetterOrDigit(c) && c is not ('-' or '_'))
                    return $"'{c}' cannot be part of a host name";
            }
        }

        host = name.ToLowerInvariant();
        return null;
    }

    private static string? ReadPort(string port, string host, IPAddress? literal, out NetworkAddress? address)
    {
        address = null;
        if (port.Length == 0) return "the port is missing after the ':'";
        if (IsNumber(port))
        {
            if (port.Length > 9 || int.Parse(port, CultureInfo.InvariantCulture) > IPEndPoint.MaxPort)
                return $"the port is {port}, allowed 0 to {IPEndPoint.MaxPort}";
            address = new NetworkAddress(Tcp, host, int.Parse(port, CultureInfo.InvariantCulture), null, literal);
            return null;
        }

        bool hasLetter = false;
        foreach (char c in port)
        {
            hasLetter |= char.IsAsciiLetter(c);
            if (!char.IsAsciiLetterOrDigit(c) && c is not ('-' or '_' or '.' or '+'))
                return $"'{port}' is neither a port from 0 to {IPEndPoint.MaxPort} nor the name of a service";
        }

        if (!hasLetter || port.Length > MaxServiceLength)
            return $"'{port}' is neither a port from 0 to {IPEndPoint.MaxPort} nor the name of a service";
        address = new NetworkAddress(Tcp, host, -1, port, literal);
        return null;
    }

    // ------------------------------------------------------------------ conversion to end points

    /// <summary>
    /// Returns the sockets of <c>systemd:NAME</c> or <c>fd:NUMBER</c>. If there is none, <paramref name="mistake"/> has
    /// the reason.
    /// </summary>
    internal List<InheritedSocket> FindInherited(out string? mistake)
    {
        if (Scheme == Systemd) return SystemdSockets.OfProcess.Find(Host, SocketType.Stream, out mistake);
        return InheritedSocket.Find(int.Parse(Host, CultureInfo.InvariantCulture), "", out mistake) is { } socket
            ? [socket]
            : [];
    }

    /// <summary>
    /// Returns the end point for sockets: an <see cref="IPEndPoint"/>, a <see cref="DnsEndPoint"/> for a name, a
    /// <see cref="UnixDomainSocketEndPoint"/>, or an <see cref="InheritedSocket"/>. <c>*</c> is the IPv6 wildcard,
    /// which also accepts IPv4, or the IPv4 one on systems without IPv6. An IPv4-mapped IPv6 address is converted to
    /// IPv4. A service is looked up in a file that is read once.
    /// </summary>
    /// <exception cref="FormatException">The service does not exist, or this process has not exactly one such
    /// socket.</exception>
    /// <exception cref="NotSupportedException">The scheme is <c>memory://</c>.</exception>
    public EndPoint ToEndPoint()
    {
        if (Scheme == Unix) return new UnixDomainSocketEndPoint(Host[0] == '@' ? "\0" + Host[1..] : Host);
        if (Scheme is Systemd or Descriptor)
        {
            List<InheritedSocket> sockets = FindInherited(out string? mistake);
            return sockets.Count == 1 ? sockets[0] : throw new FormatException(
                $"{this}: {mistake ?? $"this names {sockets.Count} sockets: give it to the options of a server"}");
        }

        if (Scheme is not (Tcp or Tls))
            throw new NotSupportedException(
                $"{this}: names of this kind belong to one engine; give the address to options with that engine.");
        int port = Service is null ? Port : ServiceNames.PortOf(Service) ?? throw new FormatException(NoService);
        if (IsWildcard) return new IPEndPoint(Socket.OSSupportsIPv6 ? IPAddress.IPv6Any : IPAddress.Any, port);
        if (_literal is null) return new DnsEndPoint(Host, port);
        return new IPEndPoint(_literal.IsIPv4MappedToIPv6 ? _literal.MapToIPv4() : _literal, port);
    }

    /// <summary>Message for a service that was not found.</summary>
    internal string NoService => $"'{this}' names the service '{Service}', which is not in the list of services of "
        + $"this system; give its port as a number";

    // ------------------------------------------------------------------ equality

    /// <inheritdoc/>
    public bool Equals(NetworkAddress? other) =>
        other is not null && other.Scheme == Scheme && other.Host == Host && other.Port == Port
        && other.Service == Service;

    /// <inheritdoc/>
    public override bool Equals(object? obj) => Equals(obj as NetworkAddress);

    /// <inheritdoc/>
    public override int GetHashCode() => HashCode.Combine(Scheme, Host, Port, Service);

    /// <summary>Returns the text that parses to this address.</summary>
    public override string ToString() => Scheme switch
    {
        Unix or Systemd or Descriptor => $"{Scheme}:{Host}",
        Memory => $"memory://{Host}",
        _ => string.Create(CultureInfo.InvariantCulture,
            $"{Scheme}://{(Host.Contains(':', StringComparison.Ordinal) ? $"[{Host}]" : Host)}:"
            + $"{Service ?? Port.ToString(CultureInfo.InvariantCulture)}"),
    };
}
