using System.Globalization;

namespace Whimbrel.Tool.Doctor;

/// <summary>Checks the kernel and the engines that it supports.</summary>
internal static class EngineChecks
{
    private const string ReleasePath = "/proc/sys/kernel/osrelease";
    private static readonly Version s_uring = new(6, 1);
    private static readonly Version s_limitedReceive = new(6, 16);

    internal static Finding Kernel(SystemTree system)
    {
        string release = system.Read(ReleasePath)?.Trim() ?? "";
        if (!TryParse(release, out Version? version)) return Finding.NotUnderstood("kernel", ReleasePath, release);
        if (version < s_uring)
            return Finding.Advice("kernel", $"Linux {release}: the epoll engine runs; io_uring needs Linux 6.1",
                "upgrade to Linux 6.1 or later (Debian 12, Ubuntu 24.04 and RHEL 10 have one)");
        return Finding.Ok("kernel", version < s_limitedReceive
            ? $"Linux {release}: new enough for io_uring; from 6.16 on it also limits a receive"
            : $"Linux {release}: has all that the engines use");
    }

    /// <summary>Reports the automatically selected engine, and then each engine.</summary>
    internal static IEnumerable<Finding> Engines(Examined examined)
    {
        EngineSupport auto = examined.Support(EngineKind.Auto);
        yield return auto.IsAvailable
            ? Finding.Ok("engine", $"auto takes {Name(auto.Kind)}: {auto.Reason}")
            : Finding.Advice("engine", auto.Reason, auto.Remedy.Length == 0 ? "WHIMBREL_ENGINE=auto" : auto.Remedy);
        foreach (EngineKind kind in (EngineKind[])[EngineKind.Uring, EngineKind.Epoll, EngineKind.Portable])
        {
            EngineSupport support = examined.Support(kind);
            if (support.IsAvailable)
                yield return Finding.Ok(Name(kind),
                    kind == auto.Kind ? "works here, and is selected" : $"works here; --engine "
                        + $"{kind.ToString().ToLowerInvariant()}, WHIMBREL_ENGINE or EngineOptions.Kind select it");
            else if (!examined.System.IsLinux) yield return Finding.Skipped(Name(kind), support.Reason);
            else yield return Finding.Advice(Name(kind), support.Reason, support.Remedy.Length == 0
                ? "docs/symptoms/no-io-uring.md, or: whimbrel explain no-io-uring; "
                    + "nothing has to be done, the other engines keep every guarantee"
                : support.Remedy);
        }
    }

    private static string Name(EngineKind kind) =>
        kind == EngineKind.Uring ? "io_uring" : kind.ToString().ToLowerInvariant();

    /// <summary>Parses the first two numbers; suffixes of distributions are ignored.</summary>
    private static bool TryParse(string release, out Version version)
    {
        version = new Version();
        string[] parts = release.Split('.');
        if (parts.Length < 2) return false;
        string second = new([.. parts[1].TakeWhile(char.IsAsciiDigit)]);
        if (!int.TryParse(parts[0], NumberStyles.None, CultureInfo.InvariantCulture, out int major)
            || !int.TryParse(second, NumberStyles.None, CultureInfo.InvariantCulture, out int minor))
            return false;
        version = new Version(major, minor);
        return true;
    }
}
