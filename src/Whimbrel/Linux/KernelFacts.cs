using System.Globalization;

namespace Whimbrel.Linux;

/// <summary>What the system tells about itself that explains a refusal. Each null (or empty) where it does not tell, or not in a form that is known.</summary>
/// <param name="Release">The kernel's version, as in <c>uname -r</c>.</param>
/// <param name="UringDisabled">The setting kernel.io_uring_disabled: 0 all may, 1 privileged processes and a group, 2 nobody. Linux 6.6 and later.</param>
/// <param name="SeccompMode">0 no filter; 1 strict; 2 a filter answers for some system calls.</param>
internal readonly record struct KernelFacts(string Release, int? UringDisabled, int? SeccompMode)
{
    /// <summary>Reads them of the running process.</summary>
    /// <param name="root">Stands before each path; tests have trees of their own.</param>
    internal static KernelFacts Read(string root = "")
    {
        string status = Text($"{root}/proc/self/status");
        int at = status.IndexOf("\nSeccomp:", StringComparison.Ordinal);
        string seccomp = at < 0 ? "" : status[(at + "\nSeccomp:".Length)..].Split('\n')[0];
        return new KernelFacts(Text($"{root}/proc/sys/kernel/osrelease").Trim(), Number(Text($"{root}/proc/sys/kernel/io_uring_disabled")), Number(seccomp));
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

    private static int? Number(string text) => int.TryParse(text.Trim(), NumberStyles.None, CultureInfo.InvariantCulture, out int number) ? number : null;
}
