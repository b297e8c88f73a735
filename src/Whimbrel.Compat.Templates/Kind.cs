namespace Whimbrel.Compat.Templates;

/// <summary>A family of classes generated from one text: its name and its differences.</summary>
internal sealed class Kind
{
    private Kind(string name, string server, string client) => (Name, Server, Client) = (name, server, client);

    internal static Kind Tcp { get; } = new("Tcp", "A TCP server", "A TCP client");

    internal static Kind Ssl { get; } =
        new("Ssl", "A TLS server", "A TLS client") { IsTls = true, Shake = " and for the handshake" };

    internal static Kind Uds { get; } = new("Uds", "A Unix socket server", "A Unix socket client") { IsUnix = true };

    internal static Kind Udp { get; } = new("Udp", "A UDP server", "A UDP client") { IsUdp = true };

    internal string Name { get; }

    internal string Server { get; }

    internal string Client { get; }

    internal bool IsTls { get; private set; }

    internal bool IsUnix { get; private set; }

    internal bool IsUdp { get; private set; }

    internal string Shake { get; private set; } = "";
}
