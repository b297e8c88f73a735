using Whimbrel.Engines.Epoll;
using Whimbrel.Linux;
using Whimbrel.Simulation.Kernel;

namespace Whimbrel.Simulation.Epoll;

// The waiting of one epoll loop, without a kernel: level-triggered like Linux, with events in any order, late,
// spurious, and at most as many as requested. It checks how an engine uses the set, and throws on a violation. Safe:
// events are written within the wait, at most as many as there is space for.
internal sealed unsafe class SimEpoll(SimKernel kernel, Func<bool> whileAsleep) : EpollCalls
{
    // Number of times a descriptor may be reported without a reaction. A real kernel would report it forever, and the
    // loop would spin.
    private const int MostIgnored = 2;

    private readonly List<(SimInterest Interest, uint Events)> _ready = [];
    private SimDescriptor? _set;
    private SimDescriptor? _wake;

    internal Loop? Loop { get; set; }

    // The loop waits in its last call, and no event arrived.
    internal bool IsAsleep { get; private set; }

    // A real wait would end, or has not started.
    internal bool IsReady
    {
        get
        {
            if (!IsAsleep || _set?.Set is not { } set) return true;
            foreach (SimInterest interest in set)
            {
                if (EventsOf(interest) != 0) return true;
            }

            return false;
        }
    }

    // ------------------------------------------------------------------ the set

    internal override int Create()
    {
        SimDescriptor set = new() { Set = [] };
        if (_set is not null && kernel.Chance(kernel.Faults.Passing, "no other set")) return -Errno.EMFILE;
        int number = kernel.Open(set, isOwn: true);
        _set ??= set;
        return number;
    }

    internal override int CreateWake()
    {
        _wake = new SimDescriptor { IsWake = true };
        return kernel.Open(_wake, isOwn: true);
    }

    internal override void Close(int fd)
    {
        SimDescriptor closed = kernel.Get(fd, "the end of the set");
        kernel.Close(fd, "the end of the set");
        if (ReferenceEquals(closed, _set)) _set = null;
        if (ReferenceEquals(closed, _wake)) _wake = null;
    }

    internal override int Control(int epoll, int operation, int fd, byte* epollEvent)
    {
        SimDescriptor set = kernel.Get(epoll, "Control");
        SimDescriptor descriptor = kernel.Get(fd, "Control");
        EpollEvents.Read(epollEvent, 0, out uint mask, out ulong data);
        SimInterest? known = set.Set!.Find(i => ReferenceEquals(i.Descriptor, descriptor));
        kernel.Trace.Add("control", fd, (operation * 100_000) + (long)mask);
        if (known is null != (operation == EpollAbi.EPOLL_CTL_ADD))
            throw kernel.Violation(
                $"epoll_ctl {operation} of descriptor {fd}, which {(known is null ? "is not" : "is")} in the set");
        switch (operation)
        {
            case EpollAbi.EPOLL_CTL_ADD:
                if (!descriptor.IsWake && kernel.Chance(kernel.Faults.ControlError, "no room in the set"))
                    return -kernel.Dice.Pick(Errno.ENOMEM, Errno.ENOSPC);
                set.Set.Add(new SimInterest(descriptor, mask, data));
                break;
            case EpollAbi.EPOLL_CTL_MOD:
                (known!.Mask, known.Data, known.Ignored) = (mask, data, 0);
                break;
            default:
                set.Set.Remove(known!);
                break;
        }

        // When one descriptor moves to another set, all do.
        if (!ReferenceEquals(set, _set) && !descriptor.IsWake) _set = set;
        return 0;
    }

    // ------------------------------------------------------------------ waking

    internal override void Wake(int wake) => kernel.Get(wake, "Wake").WakeCount++;

    internal override void TakeWake(int wake)
    {
        SimDescriptor descriptor = kernel.Get(wake, "TakeWake");
        descriptor.WakeCount = 0;
        descriptor.Calls++;
    }

    // ------------------------------------------------------------------ waiting

    internal override int Wait(int epoll, byte* events, int count, int timeoutMs)
    {
        _set = kernel.Get(epoll, "Wait");
        IsAsleep = false;
        long dueMs = Loop!.Timers.NextDueMs - kernel.NowMs;
        if (timeoutMs != 0 && dueMs < (timeoutMs < 0 ? int.MaxValue : timeoutMs))
            throw kernel.Violation($"a wait of {timeoutMs} ms, and a timer is due in {dueMs}");
        if (kernel.Chance(kernel.Faults.EnterError, "wait that is interrupted")) return -Errno.EINTR;
        Collect(mayStray: true);
        if (_ready.Count == 0 && timeoutMs != 0)
        {
            IsAsleep = true;
            if (kernel.Chance(kernel.Faults.WhileAsleep, "others while a loop sleeps"))
            {
                bool isAllDone = whileAsleep();
                Collect(mayStray: false);
                if (isAllDone && _ready.Count == 0 && Loop.Mailbox.Any)
                    throw kernel.Violation("an item was posted to a sleeping loop that is not woken");
                IsAsleep = _ready.Count == 0;
            }
        }

        if (_ready.Count == 0) return timeoutMs != 0 && kernel.Dice.Chance(500) ? -Errno.EINTR : 0;
        int first = kernel.Dice.Next(_ready.Count);
        int told = 0;
        for (int i = 0; i < _ready.Count && told < count; i++)
        {
            (SimInterest interest, uint mask) = _ready[(first + i) % _ready.Count];
            if (told > 0 && !interest.Descriptor.IsClosed && kernel.Chance(kernel.Faults.Late, "late event")) continue;
            Report(interest);
            kernel.Trace.Add("event", interest.Descriptor.Number, mask);
            EpollEvents.Write(events + (told++ * EpollEvents.Size), mask, interest.Data);
        }

        return told;
    }

    private void Collect(bool mayStray)
    {
        _ready.Clear();
        foreach (SimInterest interest in _set!.Set!)
        {
            uint events = EventsOf(interest);
            if (mayStray && MayStray(interest) && kernel.Chance(kernel.Faults.Stray, "event for nothing"))
                events |= interest.Mask & (EpollAbi.EPOLLIN | EpollAbi.EPOLLOUT);
            if (events != 0) _ready.Add((interest, events));
        }
    }

    // A completed connect is never reported too early.
    private bool MayStray(SimInterest interest) => !interest.Descriptor.IsClosed && (interest.Descriptor.IsWake
        || interest.Descriptor.Listening is not null || IsConnected(interest.Descriptor));

    private bool IsConnected(SimDescriptor descriptor) => descriptor is { Socket: not null, ConnectError: 0 }
        && (!descriptor.IsAsked || descriptor.IsAnsweredAt(kernel.NowMs));

    // A loop must react to a reported event: by a call, by changing its interest, or by closing.
    private void Report(SimInterest interest)
    {
        SimDescriptor descriptor = interest.Descriptor;
        if (descriptor.IsClosed) return;
        interest.Ignored = descriptor.Calls == descriptor.CallsWhenTold ? interest.Ignored + 1 : 0;
        if (interest.Ignored >= MostIgnored)
            throw kernel.Violation(
                $"descriptor {descriptor.Number} was reported {interest.Ignored + 1} times without a reaction");
        descriptor.CallsWhenTold = descriptor.Calls;
    }

    // As the poll functions of Linux: errors and the end of both directions are always reported.
    private uint EventsOf(SimInterest interest)
    {
        SimDescriptor descriptor = interest.Descriptor;
        uint events = 0;
        if (descriptor.IsWake) events = descriptor.WakeCount > 0 ? EpollAbi.EPOLLIN : 0;
        else if (descriptor.Listening is { } listening) events = listening.Waiting.Count > 0 ? EpollAbi.EPOLLIN : 0;
        else if (!descriptor.IsAsked) events = EpollAbi.EPOLLOUT;
        else if (!descriptor.IsAnsweredAt(kernel.NowMs)) events = 0;
        else if (descriptor.ConnectError != 0)
            events = EpollAbi.EPOLLIN | EpollAbi.EPOLLOUT | EpollAbi.EPOLLERR | EpollAbi.EPOLLHUP | EpollAbi.EPOLLRDHUP;
        else if (descriptor.Socket is { } socket)
        {
            if (descriptor.IsReadable) events |= EpollAbi.EPOLLIN;
            if (descriptor.HasRoom) events |= EpollAbi.EPOLLOUT;
            if (socket.HasFinish || socket.IsReset || descriptor.IsReadShut) events |= EpollAbi.EPOLLRDHUP;
            if (socket.IsReset || ((socket.HasFinish || descriptor.IsReadShut) && descriptor.IsWriteShut))
                events |= EpollAbi.EPOLLHUP;
            if (socket.IsReset && !descriptor.ResetWasTold) events |= EpollAbi.EPOLLERR;
        }

        return events & (interest.Mask | EpollAbi.EPOLLERR | EpollAbi.EPOLLHUP);
    }
}
