using Whimbrel.Linux;

namespace Whimbrel.Engines.Uring;

/// <summary>
/// The three system calls of io_uring. Open, so that tests can force results that the kernel rarely returns: no
/// permission, no memory, an unknown flag, a signal. Any thread; no state.
/// </summary>
// Safe: pointers are passed to the system call, which keeps none.
internal abstract unsafe class RingCalls
{
    internal static RingCalls System { get; } = new Plain();

    /// <summary>Returns a descriptor, or a negated error number.</summary>
    internal virtual int Setup(uint entries, UringParameters* parameters) => Syscall.UringSetup(entries, parameters);

    /// <summary>Returns the number of operations taken, or a negated error number.</summary>
    internal virtual int Enter(int fd, uint submit, uint complete, uint flags, WaitArgument* argument) =>
        Syscall.UringEnter(fd, submit, complete, flags, argument, argument is null ? 0 : (nuint)sizeof(WaitArgument));

    /// <summary>Returns a non-negative result, or a negated error number.</summary>
    internal virtual int Register(int fd, uint operation, void* argument, uint count) =>
        Syscall.UringRegister(fd, operation, argument, count);

    private sealed class Plain : RingCalls;
}
