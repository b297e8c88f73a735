using System.Runtime.InteropServices;

namespace Whimbrel.Linux;

/// <summary>
/// Keeps the last file descriptors of the process free. The runtime needs some to start a thread or to load an
/// assembly, and ends the process if there are none; other code usually fails, too. A new descriptor has the lowest
/// free number, so its number shows how many are left. Any thread; a slightly outdated mark is harmless.
/// </summary>
/// <remarks>
/// The mark is the number from which on fewer than the margin are left. Near it, it is determined again for each
/// descriptor, because the limit may have changed, and the program may use high numbers, which reduce the margin.
/// <para>A multishot accept takes descriptors in the kernel before this code sees their numbers. The kernel stores the
/// limit when the accept is submitted, so it is submitted under a limit that ends at the mark
/// (<see cref="HandOver"/>).</para>
/// </remarks>
// Safe: every pointer is to memory on the stack, for the length of a call.
internal sealed unsafe class DescriptorMargin
{
    private const int RLIMIT_NOFILE = 7;
    private const short POLLNVAL = 0x20;
    private const int Look = 32; // number of descriptors checked in one call

    /// <summary>Minimum margin: the runtime keeps two descriptors for each assembly that it loads.</summary>
    internal const int Least = 16;

    private const int MostByItself = 64;

    private static readonly Lock s_limit = new(); // held while the limit is temporarily lowered

    private readonly bool _isOn;
    private readonly int _asked;
    private int _count;
    private int _mark; // 0: not determined yet

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

    /// <summary>No margin, for engines without descriptors.</summary>
    internal static DescriptorMargin None { get; } = new(0, isOn: false);

    /// <summary>
    /// True if descriptors are kept free. On other systems than Linux a number says nothing about the others.
    /// </summary>
    internal bool IsOn => _isOn;

    /// <summary>Number of descriptors to keep free, once the limit was determined.</summary>
    internal int Count => Volatile.Read(ref _count);

    /// <summary>Limit of the process (ulimit -n), as far as it is known.</summary>
    internal static long Limit
    {
        get
        {
            ulong* limits = stackalloc ulong[2];
            lock (s_limit)
                return GetLimit(RLIMIT_NOFILE, limits) == 0 ? (long)Math.Min(limits[0], int.MaxValue) : int.MaxValue;
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

    /// <summary>
    /// Returns true if, with this new descriptor, fewer than the margin are left: the caller must close it.
    /// </summary>
    internal bool IsReached(int descriptor)
    {
        if (!_isOn || descriptor < Volatile.Read(ref _mark) - Count) return false;
        LookUp();
        return descriptor >= Volatile.Read(ref _mark);
    }

    /// <summary>
    /// Returns true if <paramref name="more"/> descriptors fit after <paramref name="newest"/> before the margin
    /// begins.
    /// </summary>
    internal bool HasRoom(int newest, long more) => !_isOn || newest + more < Volatile.Read(ref _mark) - Count;

    /// <summary>Returns true if another descriptor would leave the margin free.</summary>
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
    /// Submits a multishot accept to the kernel so that it takes nothing from the margin. Many descriptors are free at
    /// that moment, so the lowered limit affects no other code.
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

    /// <summary>Determines the limit and the mark again, because a call found no descriptor.</summary>
    internal void LookUp()
    {
        if (!_isOn) return;
        int limit = (int)Limit;
        int count = _asked > 0 ? _asked : Math.Clamp(limit / 4, Least, MostByItself);
        Volatile.Write(ref _count, count);
        Volatile.Write(ref _mark, MarkBelow(limit, count));
    }

    /// <summary>Checks downwards from the limit until as many free descriptors are found as the margin.</summary>
    private int MarkBelow(int limit, int margin)
    {
        PollRequest* requests = stackalloc PollRequest[Look];
        int free = 0;
        for (int top = limit; top > 0;)
        {
            int count = Math.Min(Look, top);
            for (int i = 0; i < count; i++)
                requests[i] = new PollRequest { Descriptor = top - 1 - i, Events = 0, Answer = 0 };
            // The call fails if the limit was lowered in the meantime. The next descriptor then determines the mark
            // again.
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
