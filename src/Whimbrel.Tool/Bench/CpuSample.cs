using System.Globalization;
using Whimbrel.Linux;

namespace Whimbrel.Tool.Bench;

/// <summary>CPU times at one edge of the window: of each loop's thread, and of the server's process.</summary>
/// <param name="Loops">Times of the loops; default where they are unknown.</param>
/// <param name="ServerTicks">User and system time of the server, in ticks of the kernel; -1 if unknown.</param>
/// <param name="AtNs">Moment of the sample.</param>
internal sealed record CpuSample(ThreadTimes[] Loops, long ServerTicks, long AtNs)
{
    private const double TicksInSecond = 100; // USER_HZ, which Linux shows on every architecture
    private const int UserTicks = 11; // in the fields after the name
    private const double MsInSecond = 1000;

    /// <param name="threadIds">Thread ids of the loops; 0 for none.</param>
    /// <param name="serverPid">Process of the server; 0 for none.</param>
    internal static CpuSample Take(IReadOnlyList<int> threadIds, int serverPid) =>
        new([.. threadIds.Select(static id => ThreadTimes.TryRead(id, out ThreadTimes times) ? times : default)],
            serverPid == 0 ? -1 : TicksOf(serverPid), Clock.Now());

    /// <summary>Returns the shares of this time that the busiest loop was on a cpu and waited for one.</summary>
    internal (double Cpu, double Queued) BusiestUntil(CpuSample last)
    {
        double seconds = (last.AtNs - AtNs) / (double)Clock.NsInSecond;
        (double Cpu, double Queued) most = (0, 0);
        for (int i = 0; i < Loops.Length; i++)
        {
            double cpu = (last.Loops[i].CpuMs - Loops[i].CpuMs) / MsInSecond / seconds;
            double queued = (last.Loops[i].QueuedMs - Loops[i].QueuedMs) / MsInSecond / seconds;
            if (cpu + queued > most.Cpu + most.Queued) most = (cpu, queued);
        }

        return most;
    }

    /// <summary>Returns the CPU time of the server in nanoseconds; null if it is unknown.</summary>
    internal double? ServerNsUntil(CpuSample last) => ServerTicks < 0 || last.ServerTicks < 0
        ? null
        : (last.ServerTicks - ServerTicks) / TicksInSecond * Clock.NsInSecond;

    private static long TicksOf(int pid)
    {
        try
        {
            string text = File.ReadAllText(string.Create(CultureInfo.InvariantCulture, $"/proc/{pid}/stat"));
            string[] fields = text[(text.LastIndexOf(')') + 2)..].Split(' ');
            return long.Parse(fields[UserTicks], CultureInfo.InvariantCulture)
                + long.Parse(fields[UserTicks + 1], CultureInfo.InvariantCulture);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException or FormatException
            or IndexOutOfRangeException or ArgumentOutOfRangeException)
        {
            return -1;
        }
    }
}
