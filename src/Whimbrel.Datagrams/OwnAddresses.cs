using System.Net.NetworkInformation;

namespace Whimbrel.Datagrams;

/// <summary>
/// The IP addresses of this machine, for detecting datagrams that claim to come from their own receiver. Queried at
/// most once in 10 s, and only for an unknown address, because it takes about a millisecond. Any thread.
/// </summary>
internal static class OwnAddresses
{
    private const long RenewMs = 10_000;

    private static HashSet<DatagramPeer> s_known = [];
    private static long s_renewedMs = long.MinValue;

    /// <summary>
    /// Returns whether the address, with any port, is one of this machine's. Loopback addresses always are.
    /// </summary>
    internal static bool Contains(in DatagramPeer peer)
    {
        DatagramPeer address = DatagramPeer.WithoutPortAndScope(in peer);
        if (address.IsLoopback || Volatile.Read(ref s_known).Contains(address)) return true;
        long now = Environment.TickCount64;
        if (s_renewedMs != long.MinValue && now - Volatile.Read(ref s_renewedMs) < RenewMs) return false;
        Volatile.Write(ref s_renewedMs, now);
        Volatile.Write(ref s_known, Ask());
        return s_known.Contains(address);
    }

    private static HashSet<DatagramPeer> Ask()
    {
        HashSet<DatagramPeer> found = [];
        try
        {
            foreach (NetworkInterface one in NetworkInterface.GetAllNetworkInterfaces())
            {
                foreach (UnicastIPAddressInformation address in one.GetIPProperties().UnicastAddresses)
                {
                    DatagramPeer peer = new(address.Address, 0);
                    found.Add(DatagramPeer.WithoutPortAndScope(in peer));
                }
            }
        }
        catch (NetworkInformationException)
        {
            // The addresses are not available: only the loopback addresses count.
        }

        return found;
    }
}
