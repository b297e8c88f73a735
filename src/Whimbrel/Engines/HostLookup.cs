using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Engines;

/// <summary>
/// One question for the addresses of a host name, shared by all dials that ask it while it has no answer. Made by the
/// resolver; the engine answers it once, from any thread.
/// </summary>
internal sealed class HostLookup(Resolver resolver, string host)
{
    internal string Host { get; } = host;

    /// <summary>Dials that still want the answer. Guarded by the resolver.</summary>
    internal List<ILookupWaiter> Waiting { get; } = [];

    /// <summary>In the system's order. Written before anybody is told.</summary>
    internal IPAddress[] Addresses { get; private set; } = [];

    /// <summary>Why there are none.</summary>
    internal SocketException? Error { get; private set; }

    /// <summary>Asks the system, and waits for it. Not on a loop.</summary>
    internal void Run()
    {
        try
        {
            Complete(Dns.GetHostAddresses(Host), null);
        }
        catch (SocketException e)
        {
            Complete([], e);
        }
        catch (ArgumentException)
        {
            // No name at all: too long, or the text of an unspecified address.
            Complete([], new SocketException((int)SocketError.HostNotFound));
        }
    }

    internal void Complete(IPAddress[] addresses, SocketException? error)
    {
        Addresses = addresses;
        Error = error;
        resolver.Complete(this);
    }
}
