using System.Globalization;
using System.Net;
using Whimbrel.Linux;

namespace Whimbrel.Diagnostics;

/// <summary>Says why a listener could not be bound, who has the port, and what to do. Runs once, on failure.</summary>
internal static class BindError
{
    internal static NetworkError Describe(EndPoint endPoint, int error)
    {
        string why = error switch
        {
            Errno.EADDRINUSE => $"already in use{HolderOf(endPoint)}. Choose another address (port 0 takes a free one), or set ReusePort=true if you meant to share it. See docs/symptoms/port-taken.md.",
            Errno.EACCES => "not permitted: ports below 1024 need a privilege, and a Unix path must be in a folder you may write to.",
            Errno.EADDRNOTAVAIL => "the address is none of this machine's.",
            Errno.ENOENT => "the folder of the Unix path does not exist.",
            Errno.EMFILE or Errno.ENFILE => "no file descriptor is left, beyond those that EngineOptions.DescriptorMargin keeps free. See docs/symptoms/descriptor-limit.md.",
            _ => $"{ErrorText.Of(error)}.",
        };
        return new NetworkError(error, ErrorCategory.Bind, $"Cannot listen on {endPoint}: {why}");
    }

    /// <summary>" by 'name' (pid n)" where /proc tells, else nothing.</summary>
    private static string HolderOf(EndPoint endPoint)
    {
        if (endPoint is not IPEndPoint ip || !Directory.Exists("/proc/net")) return "";
        try
        {
            HashSet<string> inodes = [.. InodesListeningOn(ip.Port, "/proc/net/tcp"), .. InodesListeningOn(ip.Port, "/proc/net/tcp6")];
            foreach (string process in inodes.Count == 0 ? [] : Directory.EnumerateDirectories("/proc"))
            {
                if (!int.TryParse(Path.GetFileName(process), NumberStyles.None, CultureInfo.InvariantCulture, out int pid) || !Holds(process, inodes)) continue;
                return $" by '{File.ReadAllText(process + "/comm").Trim()}' (pid {pid})";
            }
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            // Not ours to see: the message is complete without it.
        }

        return "";
    }

    private static IEnumerable<string> InodesListeningOn(int port, string table)
    {
        const string listening = "0A";
        string suffix = ":" + port.ToString("X4", CultureInfo.InvariantCulture);
        if (!File.Exists(table)) yield break;
        foreach (string line in File.ReadLines(table).Skip(1))
        {
            string[] fields = line.Split(' ', StringSplitOptions.RemoveEmptyEntries);
            if (fields.Length > 9 && fields[1].EndsWith(suffix, StringComparison.Ordinal) && fields[3] == listening) yield return $"socket:[{fields[9]}]";
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
