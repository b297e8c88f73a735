using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Engines;

/// <summary>
/// One lookup of a host name, shared by all connects that need it while it is pending. Created by the resolver. The
/// engine completes it once, on any thread.
/// </summary>
internal sealed class HostLookup(Resolver resolver, string host)
{
    internal string Host { get; } = host;

    /// <summary>Connects that wait for the result. Guarded by the resolver.</summary>
    internal List<ILookupWaiter> Waiting { get; } = [];

    /// <summary>Addresses in the system's order. Written before the waiters are notified.</summary>
    internal IPAddress[] Addresses { get; private set; } = [];

    /// <summary>Error, if there are no addresses.</summary>
    internal SocketException? Error { get; private set; }

    /// <summary>Calls the system's resolver and blocks until it returns. Not on a loop.</summary>
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
            // Not a valid name: too long, or the text of an unspecified address.
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
