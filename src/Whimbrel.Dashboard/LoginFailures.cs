using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Dashboard;

/// <summary>
/// Counts wrong tokens by address. An address with <see cref="Most"/> of them is rejected until it has sent none for a
/// minute. Any thread.
/// </summary>
internal sealed class LoginFailures
{
    /// <summary>Wrong tokens of one address before it has to wait.</summary>
    internal const int Most = 10;

    /// <summary>Maximum number of addresses. Further ones share one entry.</summary>
    internal const int MostAddresses = 1_024;

    internal const int WaitMs = 60_000;
    private const string Others = "";

    private readonly Lock _gate = new();
    private readonly Dictionary<string, (int Count, long UntilMs)> _failures = [];

    /// <summary>Returns the key of a peer: its address, or its network of 64 bits with IPv6.</summary>
    internal static string KeyOf(EndPoint? peer)
    {
        if (peer is not IPEndPoint { Address: { } address }) return "local";
        if (address.IsIPv4MappedToIPv6) address = address.MapToIPv4();
        return address.AddressFamily == AddressFamily.InterNetworkV6
            ? Convert.ToHexString(address.GetAddressBytes().AsSpan(0, 8))
            : address.ToString();
    }

    /// <summary>True if this address has to wait before it may try again.</summary>
    internal bool MustWait(string key, long nowMs)
    {
        // tidy: allowed because only requests with a token come here
        lock (_gate)
        {
            if (!_failures.ContainsKey(key) && _failures.Count >= MostAddresses) key = Others;
            return _failures.TryGetValue(key, out (int Count, long UntilMs) found) && found.Count >= Most
                && nowMs < found.UntilMs;
        }
    }

    internal void Add(string key, long nowMs)
    {
        // tidy: allowed because only wrong tokens come here
        lock (_gate)
        {
            if (!_failures.ContainsKey(key) && _failures.Count >= MostAddresses && !ForgetOld(nowMs)) key = Others;
            (int count, long untilMs) = _failures.GetValueOrDefault(key);
            _failures[key] = (nowMs < untilMs ? count + 1 : 1, nowMs + WaitMs);
        }
    }

    private bool ForgetOld(long nowMs)
    {
        int before = _failures.Count;
        foreach ((string key, (_, long untilMs)) in _failures)
        {
            if (nowMs >= untilMs) _failures.Remove(key);
        }

        return _failures.Count < before;
    }
}
