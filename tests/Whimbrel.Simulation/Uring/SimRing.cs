using System.Net;
using Whimbrel.Connections;
using Whimbrel.Engines.Uring;
using Whimbrel.Linux;
using Whimbrel.Simulation.Kernel;

namespace Whimbrel.Simulation.Uring;

// A ring without a kernel: executes the operations of the unchanged loop on the descriptors of SimKernel, in an order
// and with results chosen by the seed. It checks the contract at the head of Ring.cs and in the remarks of UringLoop,
// and throws on a violation. SimRing.Operations.cs implements the operations. Safe: a buffer is written only between
// its return to the ring and its next completion.
internal sealed unsafe partial class SimRing : PlainRing
{
    private const int BadRing = 53; // EBADR

    private readonly SimKernel _kernel;
    private readonly SimDescriptor _wake = new() { IsWake = true };
    private readonly List<SimOperation> _running = [];
    private readonly Stack<SimOperation> _spare = new();
    private readonly List<Told> _late = [];
    private readonly Queue<CompletionEntry> _overflow = new();
    private readonly Queue<int> _buffers = new();
    private readonly bool[] _isOurs;
    private readonly int _bufferBytes;
    private readonly Action _whileAsleep;
    private readonly HashSet<ulong> _over = [];
    private int _breaksIn = -1;
    private bool _isClosed;

    private readonly record struct Told(SimOperation Operation, int Result, uint Flags, bool IsLast);

    internal SimRing(SimKernel kernel, uint submitEntries, uint completeEntries, int bufferCount, int bufferBytes,
        bool canLimitReceive, Action whileAsleep)
        : base(submitEntries, completeEntries, bufferCount, bufferBytes)
    {
        _kernel = kernel;
        _bufferBytes = bufferBytes;
        _whileAsleep = whileAsleep;
        _isOurs = new bool[bufferCount];
        CanLimitReceive = canLimitReceive;
        _kernel.Open(_wake, isOwn: true);
        if (kernel.Chance(kernel.Faults.Break, "ring that breaks")) _breaksIn = kernel.Dice.Next(1, 40);
    }

    internal override bool CanLimitReceive { get; }

    internal override int WakeDescriptor => _wake.Number;

    // The loop waits in its last enter, and no completion arrived.
    internal bool IsAsleep { get; private set; }

    internal bool IsWoken => _wake.WakeCount > 0;

    // A real wait would end, or has not started.
    internal bool IsReady
    {
        get
        {
            if (!IsAsleep || _late.Count > 0 || _overflow.Count > 0) return true;
            foreach (SimOperation operation in _running)
            {
                if (CanGoOn(operation)) return true;
            }

            return false;
        }
    }

    // ------------------------------------------------------------------ enter

    private protected override int Enter(uint submit, uint complete, bool takesEvents, long timeoutMs)
    {
        if (_isClosed) throw _kernel.Violation("an enter on a ring that was closed");
        if (submit != Handed || submit > _submitMask + 1)
            throw _kernel.Violation($"an enter with {submit} of {Handed} operations");
        if (Held > _completeMask + 1) throw _kernel.Violation("more completions taken than there were");
        if (complete > 0 && !takesEvents) throw _kernel.Violation("an enter that waits and takes no events");
        IsAsleep = false;
        TakeBuffers(all: false);
        if (Refuse() is not 0 and int error) return -error;
        uint count = submit;
        if (submit > 0 && _kernel.Chance(_kernel.Faults.ShortSubmit, "short submit"))
            count = (uint)_kernel.Dice.Next((int)submit + 1);
        for (uint i = 0; i < count; i++)
        {
            SubmissionEntry entry = TakeEntry();
            Start(in entry);
        }

        if (takesEvents) Progress();
        Tell();
        if (complete == 0 || count < submit || Held > 0) return (int)count;
        IsAsleep = true;
        if (_kernel.Dice.Chance(_kernel.Faults.WhileAsleep))
        {
            _whileAsleep();
            Progress();
            Tell();
            IsAsleep = Held == 0;
            if (Held > 0) return (int)count;
        }

        if (count > 0) return (int)count;
        return _kernel.Dice.Chance(500) ? -Errno.ETIME : -Errno.EINTR;
    }

    // The error of an enter that does nothing, or 0.
    private int Refuse()
    {
        if (_breaksIn >= 0 && _breaksIn-- == 0)
        {
            _breaksIn = 0;
            _kernel.Trace.Add("ring-breaks", 0, _running.Count);
            return _kernel.Dice.Pick(BadRing, Errno.ENXIO, Errno.EBADF);
        }

        if (_overflow.Count > 0 && _kernel.Chance(300, "busy with overflow")) return Errno.EBUSY;
        if (!_kernel.Chance(_kernel.Faults.EnterError, "enter that fails")) return 0;
        return _kernel.Dice.Pick(Errno.EINTR, Errno.EAGAIN, Errno.EBUSY, Errno.ENOMEM);
    }

    private protected override void BufferReturned(in ProvidedBuffer buffer)
    {
        if (buffer.Id >= BufferCount || buffer.Address != (ulong)BufferAt(buffer.Id)
            || buffer.Length != (uint)_bufferBytes)
            throw _kernel.Violation($"buffer {buffer.Id} was given back wrong");
        if (_isOurs[buffer.Id]) throw _kernel.Violation($"buffer {buffer.Id} was given back twice");
        _isOurs[buffer.Id] = true;
        _buffers.Enqueue(buffer.Id);
        // A late reader, or a late send from it, finds garbage.
        new Span<byte>(BufferAt(buffer.Id), _bufferBytes).Fill(0xDD);
    }

    // Makes decided completions visible to the loop: in order per operation, otherwise in any order.
    private void Tell()
    {
        while (_overflow.Count > 0 && HasRoom) Write(_overflow.Dequeue());
        while (_late.Count > 0)
        {
            if (_kernel.Chance(_kernel.Faults.Late, "late completion")) return;
            int index = 0;
            if (_late.Count > 1 && _kernel.Chance(_kernel.Faults.Reorder, "reordered completion"))
            {
                SimOperation any = _late[_kernel.Dice.Next(_late.Count)].Operation;
                while (!ReferenceEquals(_late[index].Operation, any)) index++;
            }

            Told told = _late[index];
            _late.RemoveAt(index);
            CompletionEntry entry = new() { UserData = told.Operation.Mark, Result = told.Result, Flags = told.Flags };
            _kernel.Trace.Add("told", (int)(entry.UserData >> 56), entry.Result);
            if (told.IsLast) Forget(told.Operation);
            if (_overflow.Count == 0 && HasRoom) Write(entry);
            else Overflow(entry);
        }
    }

    // Free places after all decided completions are reported.
    private int Room => (int)(_completeMask + 1 - Held) - _late.Count - _overflow.Count;

    private void Overflow(CompletionEntry entry)
    {
        _overflow.Enqueue(entry);
        _kernel.Chance(1000, "overflow");
    }

    private void Forget(SimOperation operation)
    {
        _running.Remove(operation);
        _kernel.Operations--;
        operation.Descriptor?.End(operation.Opcode);
        operation.Reset();
        _spare.Push(operation);
    }

    // ------------------------------------------------------------------ direct calls

    internal override void Wake()
    {
        if (_isClosed) throw _kernel.Violation("a wake of a ring that was closed");
        _wake.WakeCount++;
    }

    // ------------------------------------------------------------------ the end

    internal override void Close(bool isIdle)
    {
        if (_isClosed) throw _kernel.Violation("a ring was closed twice");
        _kernel.Trace.Add("ring-closes", _running.Count, isIdle ? 1 : 0);
        if (isIdle)
        {
            TakeBuffersOfTheEnd();
            if (_running.Count > 0)
                throw _kernel.Violation($"the ring was closed with {_running.Count} operations running: "
                    + $"{string.Join(", ", _running.Select(static o => (RingOperation)(o.Mark >> 56)))}");
            if (_late.Count + _overflow.Count + Ready > 0)
                throw _kernel.Violation("the ring was closed with unprocessed completions");
        }
        else if (_breaksIn != 0)
        {
            throw _kernel.Violation("the ring was given up, and it was well");
        }

        // As a kernel does when a ring is closed: running operations are cancelled without a completion. An accepted
        // socket that was not reported is lost; the simulation closes it, so that its peer does not wait.
        foreach (Told told in _late) CloseLost(told.Operation.Mark, told.Result);
        foreach (CompletionEntry entry in _overflow) CloseLost(entry.UserData, entry.Result);
        _late.Clear();
        _overflow.Clear();
        while (_running.Count > 0) Forget(_running[^1]);
        _isClosed = true;
        _kernel.Close(_wake.Number, "the end of the ring");
    }

    private void CloseLost(ulong mark, int result)
    {
        if ((RingOperation)(mark >> 56) != RingOperation.Accept || result < 0) return;
        _kernel.Get(result, "the end of the ring").ResetsOnClose = true;
        _kernel.Close(result, "the end of the ring");
    }

    private void TakeBuffersOfTheEnd()
    {
        TakeBuffers(all: true);
        int missing = _isOurs.Count(static isOurs => !isOurs);
        if (missing > 0) throw _kernel.Violation($"{missing} receive buffers were not given back");
    }
}
