namespace Whimbrel.Conformance;

/// <summary>A datagram handler that records everything, and checks that its callbacks are serialized on their loop, in
/// a legal order.</summary>
public sealed class RecordingHandler : DatagramHandler
{
    private readonly Lock _gate = new();
    private readonly List<(byte[] Data, DatagramPeer Peer)> _received = [];
    private readonly List<string> _events = [];
    private readonly List<string> _wrong = [];
    private readonly List<DatagramFault> _failed = [];
    private readonly List<DatagramFault> _peerErrors = [];
    private int _inside;
    private volatile int _count;

    public Action<RecordingHandler, byte[], DatagramPeer>? Received { get; set; }

    public Action<RecordingHandler>? Started { get; set; }

    public Action<RecordingHandler, LoopTimer>? Timed { get; set; }

    public Action<RecordingHandler>? Drained { get; set; }

    /// <summary>Echoes every datagram.</summary>
    public bool Echoes { get; set; }

    /// <summary>Receives joined datagrams in one call: OnReceivedRun.</summary>
    public bool TakesRuns { get; set; }

    /// <summary>Called inside that callback.</summary>
    public Action<int>? RunReceived { get; set; }

    /// <summary>Datagrams received in such calls.</summary>
    public int InRuns { get; private set; }

    public int Count => _count;

    public bool IsStopped { get; private set; }

    public IReadOnlyList<(byte[] Data, DatagramPeer Peer)> All
    {
        get
        {
            lock (_gate) return [.. _received];
        }
    }

    public IReadOnlyList<byte[]> Datagrams => [.. All.Select(static d => d.Data)];

    public IReadOnlyList<string> Events
    {
        get
        {
            lock (_gate) return [.. _events];
        }
    }

    public IReadOnlyList<DatagramFault> Failed
    {
        get
        {
            lock (_gate) return [.. _failed];
        }
    }

    public IReadOnlyList<DatagramFault> PeerErrors
    {
        get
        {
            lock (_gate) return [.. _peerErrors];
        }
    }

    /// <summary>Violations of the rules; empty in every good run.</summary>
    public IReadOnlyList<string> Wrong
    {
        get
        {
            lock (_gate) return [.. _wrong];
        }
    }

    public LoopTimer Start(TimeSpan due, TimeSpan period = default) => StartTimer(due, period);

    protected override void OnStarted() => Report("started", () => Started?.Invoke(this));

    protected override void OnReceived(ReadOnlySpan<byte> datagram, in DatagramPeer peer)
    {
        byte[] data = datagram.ToArray();
        DatagramPeer from = peer;
        lock (_gate) _received.Add((data, from));
        if (Echoes) Send(datagram, in peer);
        Report(null, () => Received?.Invoke(this, data, from));
        _count++;
    }

    protected override bool OnReceivedRun(ReadOnlySpan<byte> run, int datagramBytes, in DatagramPeer peer)
    {
        if (!TakesRuns) return false;
        int count = 0;
        DatagramPeer from = peer;
        for (ReadOnlySpan<byte> left = run; !left.IsEmpty; left = left[Math.Min(datagramBytes, left.Length)..], count++)
        {
            lock (_gate) _received.Add((left[..Math.Min(datagramBytes, left.Length)].ToArray(), from));
        }

        if (Echoes) SendRun(run, datagramBytes, in peer);
        InRuns += count;
        _count += count;
        Report(null, () => RunReceived?.Invoke(count));
        return true;
    }

    protected override void OnTruncated(ReadOnlySpan<byte> start, int length, in DatagramPeer peer) =>
        Report($"truncated {start.Length} of {length}", null);

    protected override void OnSendFailed(in DatagramFault fault)
    {
        lock (_gate) _failed.Add(fault);
        Report($"failed {fault.Error.Code}", null);
    }

    protected override void OnPeerError(in DatagramFault fault)
    {
        lock (_gate) _peerErrors.Add(fault);
        Report($"peer error {fault.Error.Code}", null);
    }

    protected override void OnDrained() => Report("drained", () => Drained?.Invoke(this));

    protected override void OnJoined(MulticastGroup group) => Report($"joined {group}", null);

    protected override void OnLeft(MulticastGroup group) => Report($"left {group}", null);

    protected override void OnTimer(LoopTimer timer) => Report("timer", () => Timed?.Invoke(this, timer));

    protected override void OnError(Exception exception)
    {
        // Called from inside the callback that threw.
        ArgumentNullException.ThrowIfNull(exception);
        lock (_gate) _events.Add($"error {exception.Message}");
    }

    protected override void OnStopped()
    {
        Report("stopped", null);
        IsStopped = true;
    }

    private void Report(string? what, Action? then)
    {
        lock (_gate)
        {
            if (what is not null) _events.Add(what);
            if (Interlocked.Exchange(ref _inside, 1) != 0) _wrong.Add($"{what} came inside another callback");
            if (!Loop.IsCurrent) _wrong.Add($"{what} came on another thread");
            if (IsStopped) _wrong.Add($"{what} came after OnStopped");
        }

        try
        {
            then?.Invoke();
        }
        finally
        {
            Volatile.Write(ref _inside, 0);
        }
    }
}
