using Whimbrel.Diagnostics;
using Whimbrel.Linux;

namespace Whimbrel.Engines.Uring;

/// <summary>
/// Converts an error of io_uring to the reason and the remedy. One error number has several causes; facts of the system
/// decide between them.
/// </summary>
internal static class UringRefusal
{
    private const string AllowInProfile = "let the seccomp profile allow io_uring_setup, io_uring_enter and "
        + "io_uring_register (docker run --security-opt seccomp=PROFILE.json)";
    private const string EnableForAll = "sysctl -w kernel.io_uring_disabled=0";

    /// <summary>Returns the reason why a ring could not be created.</summary>
    internal static UringSupport Of(RingFailure failure, in KernelFacts facts) => failure.Error switch
    {
        Errno.EPERM or Errno.EACCES => Forbidden(failure.Error, facts),
        Errno.ENOSYS => UringSupport.No(
            failure.Error,
            "this kernel has no io_uring, or a sandbox hides it (ENOSYS)",
            facts.SeccompMode == 2
                ? AllowInProfile
                : "run outside of the sandbox (gVisor has none), on a kernel built with CONFIG_IO_URING"),
        Errno.EINVAL => UringSupport.No(failure.Error,
            "io_uring of this kernel is too old: it needs Linux 6.1 (EINVAL)", Upgrade(facts)),
        Errno.ENOMEM => UringSupport.No(
            failure.Error,
            "not enough memory for io_uring (ENOMEM): this kernel counts rings as locked memory",
            "raise the locked-memory limit: ulimit -l unlimited, or LimitMEMLOCK=infinity in the service's unit, or "
            + "docker run --ulimit memlock=-1"),
        Errno.EMFILE => UringSupport.No(
            failure.Error,
            "no descriptor left for io_uring (EMFILE)",
            "raise the descriptor limit: ulimit -n 100000, or LimitNOFILE=100000 in the service's unit, or docker run "
            + "--ulimit nofile=100000"),
        Errno.ENFILE => UringSupport.No(failure.Error, "no descriptor left in the whole system for io_uring (ENFILE)",
            "raise the descriptor limit of the system: sysctl -w fs.file-max=1000000"),
        0 => UringSupport.No(0, $"io_uring of this kernel is too old: {failure.Step}", Upgrade(facts)),
        _ => UringSupport.No(failure.Error, $"io_uring is not usable: {failure.Step}: {ErrorText.Of(failure.Error)}"),
    };

    /// <summary>Returns the reason why an operation on an existing ring does not work.</summary>
    internal static UringSupport OfTest(string trouble, in KernelFacts facts) =>
        UringSupport.No(0, trouble, facts.SeccompMode == 2
            ? "run outside of the sandbox, which allows a part of io_uring only" : Upgrade(facts));

    private static UringSupport Forbidden(int error, in KernelFacts facts)
    {
        const string what = "io_uring is forbidden here (EPERM): ";
        if (facts.UringDisabled == 2)
            return UringSupport.No(error, $"{what}kernel.io_uring_disabled is 2, which permits no process",
                EnableForAll);
        // A process in a container can be root and also be blocked by a filter; if both apply, both have to be removed.
        if (facts.UringDisabled == 1)
            return UringSupport.No(error,
                $"{what}kernel.io_uring_disabled is 1, which permits privileged processes only",
                $"{EnableForAll}, or sysctl -w kernel.io_uring_group=GID with a group of this user");
        if (facts.SeccompMode == 2)
            return UringSupport.No(error, $"{what}by a seccomp filter, as containers have", AllowInProfile);
        return UringSupport.No(error, $"{what}by a security module or a sandbox",
            "look for the denial: dmesg, or ausearch -m avc -ts recent");
    }

    private static string Upgrade(in KernelFacts facts) =>
        facts.Release.Length == 0 ? "run on Linux 6.1 or later" : $"run on Linux 6.1 or later; this is {facts.Release}";
}
