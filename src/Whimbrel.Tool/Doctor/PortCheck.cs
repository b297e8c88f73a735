using System.Globalization;
using System.Net;

namespace Whimbrel.Tool.Doctor;

/// <summary>Checks whether a server can listen at a port, by listening there for a moment.</summary>
internal static class PortCheck
{
    internal static async Task<Finding> OfAsync(int port)
    {
        string number = port.ToString(CultureInfo.InvariantCulture);
        await using Engine engine = new(new EngineOptions { Kind = EngineKind.Portable, Loops = 1 });
        await using Server server =
            new(new ServerOptions { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Any, port) },
                static () => new EchoSession());
        try
        {
            await server.StartAsync();
            return Finding.Ok("port", $"{number} is free on all IPv4 addresses");
        }
        catch (NetworkException e)
        {
            // The message names the process that has the port, or the missing privilege.
            return Finding.Advice("port", e.Message, port < 1024
                ? "sysctl -w net.ipv4.ip_unprivileged_port_start=0, or another port with --port"
                : $"another port with --port, or end what ss -ltnp 'sport = :{number}' shows");
        }
    }
}
