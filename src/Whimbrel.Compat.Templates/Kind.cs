namespace Whimbrel.Compat.Templates;

/// <summary>A family of classes that one text makes: its name, and where its text differs.</summary>
internal sealed class Kind
{
    private Kind(string name, string server, string client) => (Name, Server, Client) = (name, server, client);

    internal static Kind Tcp { get; } = new("Tcp", "A TCP server", "A TCP client");

    internal static Kind Ssl { get; } = new("Ssl", "A server over TLS", "A client over TLS") { IsTls = true, Shake = " and for the handshake" };

    internal static Kind Uds { get; } = new("Uds", "A server at a Unix socket", "A client of a Unix socket") { IsUnix = true };

    internal static Kind Udp { get; } = new("Udp", "A UDP socket that answers", "A UDP socket that sends to one end point") { IsUdp = true };

    internal string Name { get; }

    internal string Server { get; }

    internal string Client { get; }

    internal bool IsTls { get; private set; }

    internal bool IsUnix { get; private set; }

    internal bool IsUdp { get; private set; }

    internal string Shake { get; private set; } = "";
}
