using System.Net;
using Whimbrel.Connections;
using Whimbrel.Engines.Uring;
using Whimbrel.Linux;
using Whimbrel.Testing;

namespace Whimbrel.Simulation.Kernel;

// State shared by the loops of one scenario: descriptors, the network, and the clock. Numbers are assigned as a kernel
// does, the lowest free one: using a closed number hits another socket.
internal sealed partial class SimKernel(Dice dice, KernelFaults faults, int wireBytes)
{
    private const int FirstNumber = 3;
    private const int FirstPort = 40_000;
    private const int DuplicateMs = 50;

    private readonly List<SimDescriptor?> _table = [];
    private readonly List<MemoryListening> _listening = [];
    private OracleException? _violation;
    private int _nextPort = FirstPort;
    private int _nextSocket = 1;
    private readonly List<(SimDescriptor Descriptor, long UntilMs)> _duplicates = [];

    internal Dice Dice { get; } = dice;

    internal KernelFaults Faults { get; set; } = faults;

    internal SimulationTrace Trace { get; } = new();

    internal long NowMs { get; set; } = 1_000;

    // Limit of open descriptors.
    internal int DescriptorLimit { get; set; } = int.MaxValue;

    internal int OpenCount { get; private set; }

    // Number of operations without their last completion, of all rings.
    internal int Operations { get; set; }

    // While true, receives fail for lack of memory; and the number of those failures.
    internal bool HasNoMemory { get; set; }

    internal int Refusals { get; private set; }

    // Number of injected faults by kind.
    internal Dictionary<string, long>? Tally { get; set; }

    internal bool Chance(int perMille, string what)
    {
        if (!Dice.Chance(perMille)) return false;
        if (Tally is not null) Tally[what] = Tally.GetValueOrDefault(what) + 1;
        return true;
    }

    // Recorded as well, because a catch around user code may swallow the exception.
    internal OracleException Violation(string what) => _violation ??= new OracleException(what);

    internal void ThrowIfViolated()
    {
        if (_violation is not null) throw _violation;
    }

    // ------------------------------------------------------------------ descriptors

    // The number, or -EMFILE. Descriptors that a loop needs itself are created in any case, because it cannot run
    // without them.
    internal int Open(SimDescriptor descriptor, bool isOwn = false)
    {
        if (OpenCount >= DescriptorLimit && !isOwn) return -Errno.EMFILE;
        int index = _table.IndexOf(null);
        if (index < 0)
        {
            index = _table.Count;
            _table.Add(null);
        }

        _table[index] = descriptor;
        OpenCount++;
        return descriptor.Number = index + FirstNumber;
    }

    internal SimDescriptor Get(int number, string who)
    {
        int index = number - FirstNumber;
        return (uint)index < (uint)_table.Count && _table[index] is { } descriptor
            ? descriptor
            : throw Violation($"{who}: descriptor {number} is not open");
    }

    internal void Close(int number, string who)
    {
        SimDescriptor descriptor = Get(number, who);
        if (descriptor.InFlight > 0)
            throw Violation($"{who}: descriptor {number} is closed with {descriptor.InFlight} operations running");
        _table[number - FirstNumber] = null;
        OpenCount--;
        Trace.Add("close", number, descriptor.ResetsOnClose ? 1 : 0);
        descriptor.IsClosed = true;
        if (descriptor.Listening is { } listening) StopListening(listening);
        if (descriptor.Socket is { } socket && !descriptor.ResetsOnClose
            && Chance(Faults.Duplicate, "duplicate of what was closed"))
            _duplicates.Add((descriptor, NowMs + Dice.Next(DuplicateMs)));
        else Forget(descriptor);
    }

    // No holder is left.
    private void Forget(SimDescriptor descriptor)
    {
        foreach (SimDescriptor? set in _table) set?.Set?.RemoveAll(i => ReferenceEquals(i.Descriptor, descriptor));
        descriptor.Socket?.Close(descriptor.ResetsOnClose);
    }

    // Time has passed: the holders of duplicates have ended.
    internal void CloseDuplicates()
    {
        for (int i = _duplicates.Count - 1; i >= 0; i--)
        {
            if (_duplicates[i].UntilMs > NowMs) continue;
            SimDescriptor descriptor = _duplicates[i].Descriptor;
            _duplicates.RemoveAt(i);
            Trace.Add("duplicate-closes", descriptor.Number, 0);
            Forget(descriptor);
        }
    }

    // Time of the next event that happens by itself.
    internal long NextDueMs
    {
        get
        {
            long due = long.MaxValue;
            foreach (SimDescriptor? descriptor in _table)
            {
                if (descriptor is not null && descriptor.AnswerAtMs > NowMs) due = Math.Min(due, descriptor.AnswerAtMs);
            }

            foreach ((_, long untilMs) in _duplicates) due = Math.Min(due, untilMs);
            return due;
        }
    }

    internal string OpenNumbers =>
        string.Join(", ", _table.Where(static d => d is not null).Select(static d => d!.Number));

    // ------------------------------------------------------------------ the network

    internal MemoryListening Listen(IPEndPoint endPoint)
    {
        if (endPoint.Port == 0) endPoint = new IPEndPoint(endPoint.Address, _nextPort++);
        MemoryListening listening = new(endPoint, 4096, isShared: false);
        _listening.Add(listening);
        return listening;
    }

    // Connections in the backlog end with it.
    private void StopListening(MemoryListening listening)
    {
        _listening.Remove(listening);
        while (listening.Waiting.TryDequeue(out MemorySocket? socket)) socket.Close(reset: true);
    }

    // Rejects further connections.
    internal void RefuseNewcomers(MemoryListening listening) => _listening.Remove(listening);

    // The connecting end of a connection in the backlog; null without a listener.
    internal MemorySocket? Connect(EndPoint target, EndPoint? local = null)
    {
        MemoryListening? listening = _listening.Find(l => l.EndPoint.Equals(target));
        if (listening is null) return null;
        (MemorySocket connecting, MemorySocket accepted) = MemorySocket.Pair(_nextSocket, wireBytes,
            local ?? NewLocal(), target);
        _nextSocket += 2;
        listening.Waiting.Enqueue(accepted);
        return connecting;
    }

    private IPEndPoint NewLocal() => new(IPAddress.Loopback, _nextPort++);

    internal int ConnectPeer(ConnectAttempt connector, out bool pending)
    {
        pending = true;
        bool isLost = Chance(Faults.ConnectError, "connect that fails");
        if (isLost && Dice.Chance(300)) return -Dice.Pick(Errno.ENETUNREACH, Errno.EMFILE, Errno.EADDRNOTAVAIL);
        if (OpenCount >= DescriptorLimit) return -Errno.EMFILE;
        IPEndPoint local = connector.LocalEndPoint as IPEndPoint ?? NewLocal();
        if (!isLost && connector.MayDefer)
        {
            // No packet is sent yet, as with TCP_FASTOPEN_CONNECT and a known cookie.
            pending = false;
            MemorySocket? deferred = Connect(connector.Target, local);
            SimDescriptor open = deferred is null
                ? new SimDescriptor
                {
                    Local = local,
                    ConnectError = Errno.ECONNREFUSED,
                    AnswerAtMs = NowMs + 1,
                    IsNonBlocking = true
                }
                : new SimDescriptor
                {
                    Socket = deferred,
                    Local = local,
                    IsAsked = false,
                    AnswerAtMs = long.MaxValue,
                    IsNonBlocking = true
                };
            pending = deferred is null;
            return Open(open);
        }

        MemorySocket? socket = isLost ? null : Connect(connector.Target, local);
        long answerAt = isLost && Dice.Chance(500) ? long.MaxValue : Dice.Chance(500) ? NowMs : NowMs + Dice.Next(3);
        int number = Open(new SimDescriptor
        {
            Socket = socket,
            Local = local,
            ConnectError = socket is null ? Errno.ECONNREFUSED : 0,
            AnswerAtMs = answerAt,
            IsNonBlocking = true
        });
        pending = socket is null || answerAt > NowMs || Dice.Chance(700);
        Trace.Add("connect", number, pending ? 1 : 0);
        return number;
    }

    // ------------------------------------------------------------------ direct calls

    internal ShedResult Shed(int number)
    {
        SimDescriptor listener = Get(number, "Shed");
        if (Chance(Faults.Passing, "no reserve")) return ShedResult.Failed;
        if (!listener.Listening!.Waiting.TryDequeue(out MemorySocket? socket)) return ShedResult.NobodyWaits;
        Trace.Add("shed", number, socket.Id);
        socket.Close(reset: true);
        return ShedResult.Shed;
    }

    internal int AcceptNow(int number)
    {
        SimDescriptor listener = Get(number, "AcceptNow");
        if (Chance(Faults.Passing, "interrupted accept")) return -Dice.Pick(Errno.EINTR, Errno.ECONNABORTED);
        if (listener.Listening!.Waiting.Count == 0) return -Errno.EAGAIN;
        if (OpenCount >= DescriptorLimit) return -Errno.EMFILE;
        return Accept(listener.Listening);
    }

    internal int Accept(MemoryListening listening) =>
        Open(new SimDescriptor
        {
            Socket = listening.Waiting.Dequeue(),
            IsNonBlocking = Chance(Faults.Passing, "socket that does not wait")
        });

    internal void ShutdownSend(int number)
    {
        SimDescriptor descriptor = Get(number, "ShutdownSend");
        Trace.Add("fin", number, 0);
        if (descriptor.AnswerAtMs > NowMs)
            throw Violation($"ShutdownSend: descriptor {number} has no answer yet, and its bytes would be lost");
        descriptor.IsWriteShut = true;
        descriptor.Socket?.ShutdownSend();
    }

    internal bool OpenDeferred(int number)
    {
        SimDescriptor descriptor = Get(number, "OpenDeferred");
        Ask(descriptor);
        return descriptor.AnswerAtMs <= NowMs;
    }

    // The first bytes, or an empty send, start the connect of a fast open.
    internal void Ask(SimDescriptor descriptor)
    {
        if (descriptor.IsAsked) return;
        descriptor.IsAsked = true;
        descriptor.AnswerAtMs = NowMs + Dice.Next(3);
    }
}
