using System.Net;
using System.Net.Sockets;
using System.Text;
using Whimbrel.Linux;

namespace Whimbrel;

/// <summary>Which end points a server or client accepts, and how it says no to the others.</summary>
internal static class EndPointRules
{
    internal static void Check(OptionErrors errors, string name, EndPoint? endPoint, Engine engine)
    {
        switch (endPoint)
        {
            case null:
                errors.Add($"{name} is missing: give an IPEndPoint or a UnixDomainSocketEndPoint");
                break;
            case IPEndPoint:
                break;
            case UnixDomainSocketEndPoint unix when Encoding.UTF8.GetByteCount(unix.ToString() ?? "") is 0 or > SocketAbi.MaxUnixPathBytes:
                errors.Add($"{name} = {unix}, a Unix path must have 1 to {SocketAbi.MaxUnixPathBytes} bytes");
                break;
            case UnixDomainSocketEndPoint:
                break;
            case DnsEndPoint dns:
                errors.Add($"{name} = {dns}, host names are not resolved here yet: resolve it with Dns.GetHostAddressesAsync and give an IPEndPoint");
                break;
            default:
                if (!engine.Supports(endPoint)) errors.Add($"{name} = {endPoint} ({endPoint.GetType().Name}), allowed IPEndPoint or UnixDomainSocketEndPoint");
                break;
        }
    }
}
