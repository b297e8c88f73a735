using System.Net;
using Whimbrel.Connections;
using Whimbrel.Engines.Uring;
using Whimbrel.Linux;

namespace Whimbrel.Simulation.Uring;

// The ring of the running kernel with fault injection: operations that fail without being submitted or are submitted
// with fewer bytes, completions that are delayed, enters that fail. The kernel does the rest, so a plan records the
// faults and does not guarantee their number.
internal sealed unsafe class InjectingRing : PlainRing
{
    private readonly KernelRing _kernel;
    private readonly InjectionPlan _plan;
    private readonly List<CompletionEntry> _held = [];
    private readonly bool _hasBegun;

    private InjectingRing(KernelRing kernel, InjectionPlan plan, int bufferCount, int bufferBytes)
        : base(plan.SubmitEntries, 256, bufferCount, bufferBytes)
    {
        _kernel = kernel;
        _plan = plan;
        CanLimitReceive = kernel.CanLimitReceive;
        // The kernel has its own descriptors already: ours are counted from here on.
        TakeBuffers(all: true);
        _hasBegun = true;
    }

    internal override bool CanLimitReceive { get; }

    internal override int WakeDescriptor => _kernel.WakeDescriptor;

    internal static InjectingRing Open(InjectionPlan plan, int bufferCount, int bufferBytes)
    {
        KernelRing? kernel = KernelRing.TryOpen(RingCalls.System, UringProbe.Here.CanLimitReceive,
            out RingFailure failure, 1024, bufferCount, bufferBytes);
        return kernel is null
            ? throw new InvalidOperationException(failure.ToString())
            : new InjectingRing(kernel, plan, bufferCount, bufferBytes);
    }

    private protected override void BufferReturned(in ProvidedBuffer buffer)
    {
        if (_hasBegun) _kernel.ReturnBuffer(buffer.Id);
    }

    // ------------------------------------------------------------------ enter

    private protected override int Enter(uint submit, uint complete, bool takesEvents, long timeoutMs)
    {
        TakeBuffers(all: false);
        if (_plan.Refuses() is not 0 and int error) return -error;
        uint count = _plan.Takes(submit);
        for (uint i = 0; i < count; i++)
        {
            SubmissionEntry entry = TakeEntry();
            if (_plan.Fails(in entry) is not 0 and int failed)
            {
                _held.Add(new CompletionEntry { UserData = entry.UserData, Result = -failed });
                continue;
            }

            _plan.Shorten(ref entry);
            _kernel.Push(in entry);
        }

        bool waits = complete > 0 && count == submit && _held.Count == 0;
        int broken = takesEvents ? _kernel.SubmitAndWait(waits ? timeoutMs : 0) : _kernel.Submit();
        if (broken != 0) return -broken;
        while (_kernel.Ready > 0)
        {
            _kernel.Take(out CompletionEntry entry);
            CopyReceived(in entry);
            _held.Add(entry);
        }

        Tell(mustTell: waits);
        return (int)count;
    }

    private void CopyReceived(in CompletionEntry entry)
    {
        if ((entry.Flags & UringAbi.IORING_CQE_F_BUFFER) == 0 || entry.Result <= 0) return;
        int buffer = (int)(entry.Flags >> UringAbi.IORING_CQE_BUFFER_SHIFT);
        new ReadOnlySpan<byte>(_kernel.BufferAt(buffer), entry.Result).CopyTo(new Span<byte>(BufferAt(buffer),
            entry.Result));
    }

    // In order for each operation; delayed completions follow with a later enter.
    private void Tell(bool mustTell)
    {
        bool isFirst = true;
        while (_held.Count > 0 && HasRoom)
        {
            if (!(mustTell && isFirst) && _plan.HoldsBack()) return;
            isFirst = false;
            int index = _plan.IndexOf(_held);
            Write(_held[index]);
            _held.RemoveAt(index);
        }
    }

    // ------------------------------------------------------------------ the rest

    internal override void Wake() => _kernel.Wake();

    internal override void Close(bool isIdle)
    {
        _kernel.Close(isIdle);
        if (isIdle) Free();
    }
}
