using System.Globalization;

namespace Whimbrel.Linux;

/// <summary>
/// Facts about the system that explain why io_uring is unavailable. Each is null (or empty) if the system does not
/// provide it in a known form.
/// </summary>
/// <param name="Release">Version of the kernel, as in <c>uname -r</c>.</param>
/// <param name="UringDisabled">Setting kernel.io_uring_disabled: 0 for all, 1 for privileged processes and a group, 2
/// for none. Linux 6.6 and later.</param>
/// <param name="SeccompMode">0 no filter; 1 strict; 2 a filter decides about some system calls.</param>
internal readonly record struct KernelFacts(string Release, int? UringDisabled, int? SeccompMode)
{
    /// <summary>Reads the facts of the running process.</summary>
    /// <param name="root">Prefix of each path; tests use their own trees.</param>
    internal static KernelFacts Read(string root = "")
    {
        string status = Text($"{root}/proc/self/status");
        int at = status.IndexOf("\nSeccomp:", StringComparison.Ordinal);
        string seccomp = at < 0 ? "" : status[(at + "\nSeccomp:".Length)..].Split('\n')[0];
        return new KernelFacts(Text($"{root}/proc/sys/kernel/osrelease").Trim(),
            Number(Text($"{root}/proc/sys/kernel/io_uring_disabled")), Number(seccomp));
    }

    private static string Text(string path)
    {
        try
        {
            return File.ReadAllText(path);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            return "";
        }
    }

    private static int? Number(string text) =>
        int.TryParse(text.Trim(), NumberStyles.None, CultureInfo.InvariantCulture, out int number) ? number : null;
}
