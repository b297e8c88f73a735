using System.Globalization;
using System.Text.RegularExpressions;

namespace Whimbrel.Tool.Doctor;

/// <summary>Checks the limits of the process (ulimit).</summary>
internal static partial class LimitChecks
{
    private const string LimitsPath = "/proc/self/limits";
    // A ring of 1,024 operations with its queues, rounded up. Its receive buffers are not locked.
    private const long BytesPerLoop = 2L * 1024 * 1024;

    /// <summary>Checks locked memory. Kernels before 5.12, and some later ones, count rings of unprivileged users
    /// against it.</summary>
    internal static Finding LockedMemory(SystemTree system, int loops)
    {
        if (!TryRead(system, "memlock", "Max locked memory", out long soft, out _, out Finding trouble)) return trouble;
        if (soft == long.MaxValue) return Finding.Ok("memlock", "unlimited");
        long needed = loops * BytesPerLoop;
        string text = $"{Mebibytes(soft)} MiB; with io_uring {loops} {(loops == 1 ? "loop needs" : "loops need")} up "
            + $"to {Mebibytes(needed)} MiB on kernels that count rings";
        return soft >= needed ? Finding.Ok("memlock", text) : Finding.Advice("memlock", text,
            "ulimit -l unlimited, or LimitMEMLOCK=infinity in the service's unit, or docker run --ulimit memlock=-1");
    }

    /// <summary>Checks open files. The runtime raises the soft limit to the hard one at start, so the hard one
    /// counts.</summary>
    internal static Finding Descriptors(SystemTree system)
    {
        if (!TryRead(system, "nofile", "Max open files", out long soft, out long hard, out Finding trouble))
            return trouble;
        int connections = new ServerOptions().Limits.Connections;
        string text = $"soft {Number(soft)}, hard {Number(hard)} (.NET raises its soft limit to the hard one); a "
            + $"server allows {connections} connections by default";
        return hard > connections
            ? Finding.Ok("nofile", text)
            : Finding.Advice("nofile", text, "ulimit -n 1048576 as root before the start, or LimitNOFILE=1048576 in "
                + "the service's unit, or docker run --ulimit nofile=1048576:1048576");
    }

    private static bool TryRead(SystemTree system, string name, string limit, out long soft, out long hard,
        out Finding trouble)
    {
        (soft, hard) = (0, 0);
        trouble = default;
        if (system.Read(LimitsPath) is not { } text)
        {
            trouble = Finding.Skipped(name, $"{LimitsPath} is not readable");
            return false;
        }

        string line = text.Split('\n').FirstOrDefault(l => l.StartsWith(limit, StringComparison.Ordinal)) ?? "";
        if (Values().Match(line) is { Success: true } match && TryParse(match.Groups["soft"].Value, out soft)
            && TryParse(match.Groups["hard"].Value, out hard))
            return true;
        trouble = Finding.NotUnderstood(name, LimitsPath, line.Length == 0 ? text : line);
        return false;
    }

    private static bool TryParse(string text, out long value)
    {
        value = long.MaxValue;
        return text == "unlimited" || long.TryParse(text, NumberStyles.None, CultureInfo.InvariantCulture, out value);
    }

    private static string Number(long value) =>
        value == long.MaxValue ? "unlimited" : value.ToString(CultureInfo.InvariantCulture);

    private static string Mebibytes(long bytes) =>
        (bytes / 1024.0 / 1024.0).ToString("0.##", CultureInfo.InvariantCulture);

    [GeneratedRegex(@"^\D+?\s{2,}(?<soft>unlimited|\d+)\s+(?<hard>unlimited|\d+)\s")]
    private static partial Regex Values();
}
