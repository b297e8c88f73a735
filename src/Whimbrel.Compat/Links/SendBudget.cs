namespace Whimbrel.Compat.Links;

/// <summary>
/// Bytes that all connections of the original APIs may have queued together (<see
/// cref="CompatOptions.SendBudgetBytes"/>). A connection is checked after each 64 KiB sent, and its first 256 KiB are
/// free. So most sends cost an addition, and slow peers do not stop quick ones. Any thread may use it.
/// </summary>
internal static class SendBudget
{
    internal const int LookBytes = 64 * 1024;
    internal const int FreeBytes = 256 * 1024;

    private const int RefreshMs = 10;
    private const long DefaultLeast = 64L * 1024 * 1024;
    private const long DefaultMost = 512L * 1024 * 1024;

    private static readonly Lock s_gate = new();
    private static readonly HashSet<Link> s_charged = [];
    private static long s_used;
    private static long s_refreshedAt;

    internal static long Default { get; } = Math.Clamp(GC.GetGCMemoryInfo().TotalAvailableMemoryBytes / 8, DefaultLeast,
        DefaultMost);

    internal static long Used => Volatile.Read(ref s_used);

    /// <summary>True if the caller must not queue more for this connection now.</summary>
    internal static bool IsOver(Link link, long pending)
    {
        if (pending > FreeBytes || link.Charge != 0) Charge(link, pending);
        return pending > FreeBytes && (pending > Link.MostPending || IsOver(0));
    }

    /// <summary>True if more is queued than allowed, where a server has this many bytes pending.</summary>
    internal static bool IsOver(long pending)
    {
        if (Math.Max(Used, pending) <= CompatOptions.SendBudgetBytes) return false;
        Refresh();
        return Math.Max(Used, pending) > CompatOptions.SendBudgetBytes;
    }

    /// <summary>Sets the bytes of a connection. An ended connection counts 0, also for a late caller.</summary>
    internal static void Charge(Link link, long pending)
    {
        lock (s_gate) Set(link, pending);
    }

    private static void Set(Link link, long pending)
    {
        long charge = pending > FreeBytes && link.IsConnected ? pending : 0;
        s_used += charge - link.Charge;
        link.Charge = charge;
        if (charge > 0) s_charged.Add(link);
        else s_charged.Remove(link);
    }

    // Counted bytes may have been sent since.
    private static void Refresh()
    {
        lock (s_gate)
        {
            long now = Environment.TickCount64;
            if (now - s_refreshedAt < RefreshMs) return;
            s_refreshedAt = now;
            foreach (Link link in (Link[])[.. s_charged]) Set(link, link.BytesPending);
        }
    }
}
