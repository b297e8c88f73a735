using System.Runtime.InteropServices;

namespace Whimbrel.Linux;

/// <summary>
/// Keeps the last descriptors of the process free. The runtime takes some to start a thread or to load an assembly, and ends the
/// process when it gets none; so does nobody else's code expect to be without. A new descriptor has the lowest number that is
/// free, so that its number tells how many are left: those that are free above it. Any thread; a mark that is a moment old does no harm.
/// </summary>
/// <remarks>
/// The mark is the number from which on fewer than the margin are left. Near it, it is looked up anew for each descriptor: the
/// limit may have been moved, and the program may hold high numbers, which take from the margin.
/// <para>An accept that goes on in the kernel takes descriptors before anybody here looks at their numbers. The kernel notes the limit for it when it is handed
/// over, so it is handed over under a limit that ends at the mark (<see cref="HandOver"/>).</para>
/// </remarks>
// Safe: every pointer is to memory on the stack, for the length of a call.
internal sealed unsafe class DescriptorMargin
{
    private const int RLIMIT_NOFILE = 7;
    private const short POLLNVAL = 0x20;
    private const int Look = 32; // descriptors asked about in one call

    /// <summary>Least that can be asked for: the runtime keeps two for each assembly that it loads.</summary>
    internal const int Least = 16;

    private const int MostByItself = 64;

    private static readonly Lock s_limit = new(); // held where it is lower for a moment

    private readonly bool _isOn;
    private readonly int _asked;
    private int _count;
    private int _mark; // 0: not looked up yet

    /// <summary>Keeps <paramref name="asked"/> descriptors free; for 0 a quarter of the limit, from 16 to 64.</summary>
    internal DescriptorMargin(int asked)
        : this(asked, KernelProbe.IsLinux)
    {
    }

    private DescriptorMargin(int asked, bool isOn)
    {
        _isOn = isOn;
        _asked = _count = asked;
    }

    /// <summary>For engines without descriptors.</summary>
    internal static DescriptorMargin None { get; } = new(0, isOn: false);

    /// <summary>Descriptors are kept free. Elsewhere than on Linux a number says nothing about the others.</summary>
    internal bool IsOn => _isOn;

    /// <summary>How many stay free, once the limit was looked up.</summary>
    internal int Count => Volatile.Read(ref _count);

    /// <summary>The process may have so many (ulimit -n), as far as it is known.</summary>
    internal static long Limit
    {
        get
        {
            ulong* limits = stackalloc ulong[2];
            lock (s_limit) return GetLimit(RLIMIT_NOFILE, limits) == 0 ? (long)Math.Min(limits[0], int.MaxValue) : int.MaxValue;
        }
    }

    [DllImport("libc", EntryPoint = "getrlimit")]
    private static extern int GetLimit(int resource, ulong* limits);

    [DllImport("libc", EntryPoint = "setrlimit")]
    private static extern int SetLimit(int resource, ulong* limits);

    [DllImport("libc", EntryPoint = "poll")]
    private static extern int Poll(PollRequest* requests, nuint count, int timeoutMs);

    private struct PollRequest
    {
        internal int Descriptor;
        internal short Events;
        internal short Answer;
    }

    /// <summary>With this descriptor, which was just made, fewer are left than are to be: whoever made it closes it.</summary>
    internal bool IsReached(int descriptor)
    {
        if (!_isOn || descriptor < Volatile.Read(ref _mark) - Count) return false;
        LookUp();
        return descriptor >= Volatile.Read(ref _mark);
    }

    /// <summary>After <paramref name="newest"/> there is room for <paramref name="more"/> before the margin begins.</summary>
    internal bool HasRoom(int newest, long more) => !_isOn || newest + more < Volatile.Read(ref _mark) - Count;

    /// <summary>The next descriptor would leave enough.</summary>
    internal bool HasSpare()
    {
        if (!_isOn) return true;
        int probe = Syscall.EventFd(0, EpollAbi.EFD_CLOEXEC);
        if (probe < 0) return false;
        bool isReached = IsReached(probe);
        Syscall.Close(probe);
        return !isReached;
    }

    /// <summary>
    /// Hands an accept that goes on to the kernel, which then takes nothing of the margin for it. There is room for many, so nobody else feels the limit of this moment.
    /// </summary>
    internal int HandOver(Func<int> submit)
    {
        lock (s_limit)
        {
            LookUp();
            ulong* limits = stackalloc ulong[2];
            ulong mark = (ulong)Volatile.Read(ref _mark), limit = 0;
            bool isLower = false;
            if (mark > 0 && GetLimit(RLIMIT_NOFILE, limits) == 0 && limits[0] > mark)
            {
                (limit, limits[0]) = (limits[0], mark);
                isLower = SetLimit(RLIMIT_NOFILE, limits) == 0;
            }

            try
            {
                return submit();
            }
            finally
            {
                limits[0] = limit;
                if (isLower) _ = SetLimit(RLIMIT_NOFILE, limits);
            }
        }
    }

    /// <summary>What is known of the limit no longer holds: a call found no descriptor.</summary>
    internal void LookUp()
    {
        if (!_isOn) return;
        int limit = (int)Limit;
        int count = _asked > 0 ? _asked : Math.Clamp(limit / 4, Least, MostByItself);
        Volatile.Write(ref _count, count);
        Volatile.Write(ref _mark, MarkBelow(limit, count));
    }

    /// <summary>From the limit downwards, until so many free ones are found as are to stay free.</summary>
    private int MarkBelow(int limit, int margin)
    {
        PollRequest* requests = stackalloc PollRequest[Look];
        int free = 0;
        for (int top = limit; top > 0;)
        {
            int count = Math.Min(Look, top);
            for (int i = 0; i < count; i++) requests[i] = new PollRequest { Descriptor = top - 1 - i, Events = 0, Answer = 0 };
            // It fails when the limit was lowered meanwhile. Then the next descriptor looks anew.
            if (Poll(requests, (nuint)count, 0) < 0) return Math.Max(0, limit - margin);
            for (int i = 0; i < count; i++)
            {
                if ((requests[i].Answer & POLLNVAL) != 0 && ++free == margin) return requests[i].Descriptor;
            }

            top -= count;
        }

        return 0;
    }
}
