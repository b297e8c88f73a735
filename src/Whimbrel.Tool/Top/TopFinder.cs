using System.Globalization;

namespace Whimbrel.Tool.Top;

/// <summary>
/// Finds the status socket of a process in /proc: a listening Unix socket with a name that ends in .status.
/// </summary>
internal static class TopFinder
{
    internal const string Ending = ".status";

    internal static string PathOf(int process, string root = "/proc")
    {
        string folder = Path.Combine(root, process.ToString(CultureInfo.InvariantCulture));
        if (!Directory.Exists(root))
            throw new TopException("Processes cannot be looked into on this system: give the path.");
        if (!Directory.Exists(folder)) throw new TopException($"There is no process {process}.");
        try
        {
            HashSet<string> own = [.. Directory.EnumerateFiles(Path.Combine(folder, "fd"))
                .Select(static file => new FileInfo(file).LinkTarget ?? "")];
            string[] found = [.. Listening(File.ReadLines(Path.Combine(folder, "net", "unix")))
                .Where(l => own.Contains($"socket:[{l.Inode}]")).Select(static l => l.Path)
                .Where(static p => p.EndsWith(Ending, StringComparison.Ordinal)).Distinct()];
            return found.Length switch
            {
                1 => found[0],
                0 => throw new TopException($"Process {process} has no status socket whose name ends in {Ending} "
                    + $"(ServerOptions.StatusPath, or whimbrel serve --status): give its path if it has another."),
                _ => throw new TopException(
                    $"Process {process} has several status sockets, give the path of one: {string.Join(", ", found)}."),
            };
        }
        catch (UnauthorizedAccessException)
        {
            throw new TopException($"Process {process} is another user's: be that user.");
        }
        catch (IOException)
        {
            throw new TopException($"Process {process} has just ended.");
        }
    }

    /// <summary>Returns the listening sockets with a path from a table such as /proc/net/unix.</summary>
    internal static IEnumerable<(string Inode, string Path)> Listening(IEnumerable<string> table)
    {
        const string accepts = "00010000";
        foreach (string line in table)
        {
            // Num RefCount Protocol Flags Type St Inode Path; the path may have spaces.
            string[] fields = line.Split(' ', 8, StringSplitOptions.RemoveEmptyEntries);
            if (fields.Length == 8 && fields[3] == accepts && fields[7][0] == '/') yield return (fields[6], fields[7]);
        }
    }
}
