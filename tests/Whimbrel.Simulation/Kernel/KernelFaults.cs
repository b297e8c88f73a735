namespace Whimbrel.Simulation.Kernel;

// Fault rates of the simulated kernel, per mille of the operations concerned.
internal sealed record KernelFaults
{
    // A wait fails with EINTR; an enter of a ring also with EAGAIN, EBUSY or ENOMEM.
    public int EnterError { get; init; }

    // An enter accepts only some of the operations.
    public int ShortSubmit { get; init; }

    // An operation that could continue is delayed.
    public int Delay { get; init; }

    // A completion is reported by a later enter, an event by a later wait.
    public int Late { get; init; }

    // Completions of different operations are reordered. (Events of epoll come in any order.)
    public int Reorder { get; init; }

    // A receive or send is partial.
    public int Short { get; init; }

    // An operation fails temporarily: EINTR, ENOMEM, ENOBUFS, ECANCELED.
    public int Passing { get; init; }

    // An operation fails permanently: a real reset, or a system error that leaves the socket as it was.
    public int Fatal { get; init; }

    // A receive finds no buffer although there is one.
    public int NoBuffer { get; init; }

    // A multishot operation ends without an error.
    public int EndOfMultishot { get; init; }

    // A cancel returns ENOENT or EALREADY: its target completes before, or a little later.
    public int LateCancel { get; init; }

    // A cancel returns ENOENT, EALREADY or ENOMEM without effect, although its target waits.
    public int FailedCancel { get; init; }

    // An accept finds no descriptor, or the peer has disconnected.
    public int AcceptError { get; init; }

    // A close returns an error, and has closed the descriptor or not.
    public int CloseError { get; init; }

    // A connect fails, or never completes.
    public int ConnectError { get; init; }

    // The ring returns EBADR or EFAULT from some enter on.
    public int Break { get; init; }

    // Epoll reports events that do not exist, or no longer exist.
    public int Stray { get; init; }

    // Epoll refuses another descriptor: ENOMEM or ENOSPC.
    public int ControlError { get; init; }

    // Another process holds a duplicate of a closed descriptor for a while, so it stays in the set.
    public int Duplicate { get; init; }

    // Other threads and peers run while a loop sleeps. With a ring only if callbacks run on the pool, because its other
    // seeds are older.
    public int WhileAsleep { get; init; }

    // Creating another ring fails for now.
    public int NoRing { get; init; }
}
