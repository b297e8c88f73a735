namespace Whimbrel.Simulation.Kernel;

// How unkind the simulated kernel is. Chances are per mille of what they concern.
internal sealed record KernelFaults
{
    // A wait does nothing and says EINTR; of a ring, an enter, also EAGAIN, EBUSY or ENOMEM.
    public int EnterError { get; init; }

    // An enter takes a part of the operations.
    public int ShortSubmit { get; init; }

    // An operation that could go on does not yet.
    public int Delay { get; init; }

    // A completion is told by a later enter than the one that had it, an event by a later wait.
    public int Late { get; init; }

    // Completions of different operations change places. (Events of epoll come in any order.)
    public int Reorder { get; init; }

    // A receive or send takes a part.
    public int Short { get; init; }

    // An operation fails for now: EINTR, ENOMEM, ENOBUFS, ECANCELED.
    public int Passing { get; init; }

    // An operation fails for good: a real reset, or an error of the system that leaves the socket as it was.
    public int Fatal { get; init; }

    // A receive finds no buffer though there is one.
    public int NoBuffer { get; init; }

    // A multishot operation ends though it was well.
    public int EndOfMultishot { get; init; }

    // A cancel says ENOENT or EALREADY: what it was for completes first, or a little later.
    public int LateCancel { get; init; }

    // A cancel says ENOENT, EALREADY or ENOMEM and has done nothing, though its target waits.
    public int FailedCancel { get; init; }

    // An accept finds no descriptor, or the peer gone.
    public int AcceptError { get; init; }

    // A close says an error: done all the same, or not done.
    public int CloseError { get; init; }

    // A dial fails, or nobody ever answers.
    public int DialError { get; init; }

    // The ring answers EBADR or EFAULT from one enter on.
    public int Break { get; init; }

    // Epoll tells of what is not, or not any more.
    public int Stray { get; init; }

    // Epoll does not watch one descriptor more: ENOMEM or ENOSPC.
    public int ControlError { get; init; }

    // Somebody nobody knows of has a duplicate of what is closed, for a while: it stays in the set.
    public int Duplicate { get; init; }

    // Other threads and peers get on while a loop sleeps. Of a ring with callbacks on the pool only: its other seeds are older.
    public int WhileAsleep { get; init; }

    // There is no other ring for now.
    public int NoRing { get; init; }
}
