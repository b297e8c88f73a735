using System.Globalization;
using System.Net;
using System.Net.Sockets;
using Whimbrel.Linux;

namespace Whimbrel.Diagnostics;

/// <summary>
/// Describes why a listener could not be bound, the process that has the port, and the remedy. Runs once, on failure.
/// </summary>
internal static class BindError
{
    /// <param name="endPoint">Address of the listener.</param>
    /// <param name="error">Error number of the system.</param>
    /// <param name="inTheWay">Description of what exists at a Unix path if it is not a socket; otherwise null.</param>
    internal static NetworkError Describe(EndPoint endPoint, int error, string? inTheWay = null)
    {
        string why = error switch
        {
            Errno.EADDRINUSE when inTheWay is not null => $"{inTheWay} is at that path, which is no socket and stays "
                + $"as it is. Delete it, or choose another path.",
            Errno.EADDRINUSE => $"already in use{HolderOf(endPoint)}. Choose another address "
                + $"(port 0 takes a free one), or set Socket.ReusePort in both processes to share it. "
                + $"See docs/symptoms/port-taken.md, or: whimbrel explain port-taken.",
            Errno.EACCES => "not permitted: ports below 1024 need a privilege, and a Unix path must be in a folder you "
                + "may write to.",
            Errno.EADDRNOTAVAIL => "the address is none of this machine's.",
            Errno.ENOENT => "the folder of the Unix path does not exist.",
            Errno.EMFILE or Errno.ENFILE =>
                "no file descriptor is left, beyond those that EngineOptions.DescriptorMargin keeps free. "
                + "See docs/symptoms/descriptor-limit.md, or: whimbrel explain descriptor-limit.",
            _ => $"{ErrorText.Of(error)}.",
        };
        return new NetworkError(error, ErrorCategory.Bind, $"Cannot listen on {endPoint}: {why}");
    }

    /// <summary>Returns " by 'name' (pid n)" if /proc contains it, otherwise an empty text.</summary>
    private static string HolderOf(EndPoint endPoint)
    {
        if (endPoint is not IPEndPoint ip || !Directory.Exists("/proc/net")) return "";
        try
        {
            // Reading a table takes milliseconds, even if it is short. The other one is needed when an IPv6 listener
            // also accepts IPv4.
            (string own, string other) = ip.AddressFamily == AddressFamily.InterNetworkV6
                ? ("/proc/net/tcp6", "/proc/net/tcp")
                : ("/proc/net/tcp", "/proc/net/tcp6");
            HashSet<string> inodes = [.. InodesListeningOn(ip.Port, own)];
            if (inodes.Count == 0) inodes = [.. InodesListeningOn(ip.Port, other)];
            if (inodes.Count == 0) return "";
            // Usually it is this process itself, and a machine may have thousands of others.
            string self = $"/proc/{Environment.ProcessId}";
            if (Holds(self, inodes)) return NameOf(self);
            foreach (string process in Directory.EnumerateDirectories("/proc"))
            {
                if (IsProcess(process) && Holds(process, inodes)) return NameOf(process);
            }
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            // The files are not readable for this process: the message is complete without the name.
        }

        return "";

        static bool IsProcess(string folder) =>
            int.TryParse(Path.GetFileName(folder), NumberStyles.None, CultureInfo.InvariantCulture, out _);
        static string NameOf(string process) =>
            $" by '{File.ReadAllText(process + "/comm").Trim()}' (pid {Path.GetFileName(process)})";
    }

    private static IEnumerable<string> InodesListeningOn(int port, string table)
    {
        const string listening = "0A";
        string suffix = ":" + port.ToString("X4", CultureInfo.InvariantCulture);
        if (!File.Exists(table)) yield break;
        foreach (string line in File.ReadLines(table).Skip(1))
        {
            string[] fields = line.Split(' ', StringSplitOptions.RemoveEmptyEntries);
            if (fields.Length <= 9) continue;
            // Listeners come first; all connections follow, including those that ended within the last minute.
            if (fields[3] != listening) yield break;
            if (fields[1].EndsWith(suffix, StringComparison.Ordinal)) yield return $"socket:[{fields[9]}]";
        }
    }

    private static bool Holds(string process, HashSet<string> inodes)
    {
        try
        {
            foreach (string fd in Directory.EnumerateFiles(process + "/fd"))
            {
                if (new FileInfo(fd).LinkTarget is { } target && inodes.Contains(target)) return true;
            }
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            // Another user's process, or one that has just ended.
        }

        return false;
    }
}
