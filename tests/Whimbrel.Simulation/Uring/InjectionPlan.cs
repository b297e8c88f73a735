using Whimbrel.Engines.Uring;
using Whimbrel.Linux;
using Whimbrel.Simulation.Kernel;

namespace Whimbrel.Simulation.Uring;

// The faults for one scenario on the real kernel, by seed, and the number of injected ones.
internal sealed class InjectionPlan(int seed)
{
    private readonly Dice _dice = new((ulong)seed + 77);

    // Chances per mille, drawn when the plan is first used.
    private Chances _chances = new(0, 0, 0, 0, 0, 0, 0, 0);
    private SortedDictionary<string, int> Put { get; } = [];

    internal int Seed { get; private set; } = seed;

    internal uint SubmitEntries { get; } = 64;

    // If not 0, every receive ends with this error; and the number of receives that did.
    internal int LastingError { get; set; }

    internal int LastingErrors { get; private set; }

    // Some sends or receives failed in a way that ends their connection.
    internal bool WasFatal { get; private set; }

    internal int Count { get; private set; }

    internal Dice Dice => _dice;

    private sealed record Chances(int Enter, int ShortSubmit, int Fail, int Cancel, int Fatal, int Single, int Hold,
        int Shorten);

    // The faults of the next scenario.
    internal void Begin(int scenario)
    {
        Seed = scenario;
        Put.Clear();
        WasFatal = false;
        _chances = new Chances(
            _dice.Pick(0, 50, 300), _dice.Pick(0, 50, 300), _dice.Pick(0, 30, 150), _dice.Pick(0, 300),
            _dice.Pick(0, 0, 0, 20), _dice.Pick(0, 300), _dice.Pick(0, 100, 400), _dice.Pick(0, 300));
    }

    // No more faults, because the end of the scenario is awaited.
    internal void Calm() => _chances = new Chances(0, 0, 0, 0, 0, 0, 0, 0);

    private bool Chance(int perMille, string what)
    {
        if (!_dice.Chance(perMille)) return false;
        Put[what] = Put.GetValueOrDefault(what) + 1;
        Count++;
        return true;
    }

    internal int Refuses() =>
        Chance(_chances.Enter, "refused enters") ? _dice.Pick(Errno.EINTR, Errno.EAGAIN, Errno.EBUSY, Errno.ENOMEM) : 0;

    internal uint Takes(uint submit) =>
        submit > 0 && Chance(_chances.ShortSubmit, "short submits") ? (uint)_dice.Next((int)submit + 1) : submit;

    // The error of an operation that fails immediately, without the kernel; 0: it is passed on.
    internal int Fails(in SubmissionEntry entry)
    {
        if (LastingError != 0 && entry.Opcode == UringAbi.IORING_OP_RECV)
        {
            LastingErrors++;
            return LastingError;
        }

        switch (entry.Opcode)
        {
            case UringAbi.IORING_OP_RECV or UringAbi.IORING_OP_SEND or UringAbi.IORING_OP_SENDMSG
                when Chance(_chances.Fatal, "fatal errors"):
                WasFatal = true;
                return _dice.Pick(Errno.EIO, Errno.ETIMEDOUT, Errno.EPROTO);
            case UringAbi.IORING_OP_RECV when Chance(_chances.Fail, "receives that fail"):
                return _dice.Pick(Errno.ENOBUFS, Errno.EINTR, Errno.ENOMEM, Errno.ECANCELED, Errno.EAGAIN);
            case UringAbi.IORING_OP_SEND or UringAbi.IORING_OP_SENDMSG when Chance(_chances.Fail, "sends that fail"):
                return _dice.Pick(Errno.ENOBUFS, Errno.EINTR, Errno.ENOMEM, Errno.ECANCELED, Errno.EAGAIN);
            case UringAbi.IORING_OP_ACCEPT when Chance(_chances.Fail, "accepts that fail"):
                return _dice.Pick(Errno.ECONNABORTED, Errno.EINTR, Errno.ECANCELED, Errno.EAGAIN);
            case UringAbi.IORING_OP_READ or UringAbi.IORING_OP_POLL_ADD
                when Chance(_chances.Fail, "reads and polls that fail"):
                return _dice.Pick(Errno.EINTR, Errno.ENOMEM, Errno.ECANCELED);
            case UringAbi.IORING_OP_CLOSE when Chance(_chances.Fail, "closes that fail"):
                return _dice.Pick(Errno.ENOMEM, Errno.EAGAIN, Errno.ECANCELED);
            case UringAbi.IORING_OP_ASYNC_CANCEL when Chance(_chances.Cancel, "cancels that fail"):
                return _dice.Pick(Errno.ENOENT, Errno.EALREADY, Errno.ENOMEM);
            default:
                return 0;
        }
    }

    // A part of the bytes; one completion instead of many.
    internal void Shorten(ref SubmissionEntry entry)
    {
        switch (entry.Opcode)
        {
            case UringAbi.IORING_OP_SEND when entry.Length > 1 && Chance(_chances.Shorten, "short sends"):
                entry.Length = (uint)_dice.Next(1, (int)entry.Length);
                break;
            case UringAbi.IORING_OP_RECV or UringAbi.IORING_OP_ACCEPT when entry.Priority != 0
                && Chance(_chances.Single, "multishots that end"):
                entry.Priority = 0;
                entry.TotalLength = 0;
                break;
            case UringAbi.IORING_OP_POLL_ADD when entry.Length != 0 && Chance(_chances.Single, "multishots that end"):
                entry.Length = 0;
                break;
        }
    }

    // The error of a send that is not queued; 0: it is passed on, perhaps with a part of its bytes.
    internal int SendsNow(ref int length)
    {
        SubmissionEntry entry = new() { Opcode = UringAbi.IORING_OP_SEND, Length = (uint)length };
        if (Fails(in entry) is not 0 and int error) return error == Errno.ECANCELED ? Errno.EINTR : error;
        Shorten(ref entry);
        length = (int)entry.Length;
        return 0;
    }

    // The error of a receive that is not queued; 0: it is passed on.
    internal int ReceivesNow()
    {
        SubmissionEntry entry = new() { Opcode = UringAbi.IORING_OP_RECV };
        int error = Fails(in entry);
        // Having no data is a fact and not a fault: the poll depends on it.
        return error is Errno.ECANCELED or Errno.EAGAIN ? Errno.EINTR : error;
    }

    internal bool HoldsBack() => Chance(_chances.Hold, "completions held back");

    // Any of them, but per operation the oldest.
    internal int IndexOf(List<CompletionEntry> held)
    {
        if (held.Count == 1 || !_dice.Chance(_chances.Hold)) return 0;
        ulong mark = held[_dice.Next(held.Count)].UserData;
        return held.FindIndex(entry => entry.UserData == mark);
    }

    public override string ToString() =>
        $"scenario {Seed}: {_chances}; so far {string.Join(", ", Put.Select(static p => $"{p.Value} {p.Key}"))}";
}
