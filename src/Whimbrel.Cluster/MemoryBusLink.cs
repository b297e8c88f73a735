using Whimbrel.Engines;

namespace Whimbrel.Clusters;

/// <summary>A node's end of a <see cref="MemoryBus"/>. Made by <see cref="MemoryBus.Connect"/>.</summary>
public sealed class MemoryBusLink : IGroupBus, IGroupHistory
{
    private readonly Lock _gate = new();
    private readonly MemoryBus _bus;
    private readonly HashSet<string> _subjects = new(StringComparer.Ordinal);
    private readonly Queue<(byte[] Envelope, long DelayMs)> _arriving = [];
    private readonly Queue<(byte[] Envelope, long DueMs)> _due = []; // on the loop
    private IGroupBusListener? _listener;
    private Loop? _loop;
    private LoopTimer? _timer;
    private long _lastDueMs;
    private bool _isCut;
    private int _cuts; // so many times; on the loop it says whether an answer would still have come

    internal MemoryBusLink(MemoryBus bus) => _bus = bus;

    /// <inheritdoc/>
    public string Description => "the bus in memory";

    /// <inheritdoc/>
    public string Reached => Part == 0 ? Description : $"part {Part} of {Description}";

    /// <summary>
    /// The server of the bus that the node is connected to, as on a broker of several that have lost each other: links of other parts do not hear it. Default 0. The node is not told of a change. Any thread.
    /// </summary>
    public int Part { get; set; }

    /// <inheritdoc/>
    public int MaxEnvelopeBytes => int.MaxValue;

    /// <summary>Cut off from the bus, as by a broker that was lost: what is on its way to the node is lost, too. Any thread.</summary>
    public bool IsCut
    {
        get
        {
            lock (_gate) return _isCut;
        }

        set
        {
            lock (_gate)
            {
                if (_isCut == value) return;
                _isCut = value;
                _cuts++;
                _subjects.Clear();
                _arriving.Clear();
            }

            _loop?.Post(static l => ((MemoryBusLink)l!).TellState(), this);
        }
    }

    /// <inheritdoc/>
    public ValueTask StartAsync(Loop loop, IGroupBusListener listener, CancellationToken cancellationToken)
    {
        (_loop, _listener) = (loop, listener);
        loop.Post(static l => ((MemoryBusLink)l!).TellState(), this);
        return default;
    }

    /// <inheritdoc/>
    public int Publish(ReadOnlySpan<BusMessage> messages)
    {
        if (IsCut) return 0;
        _bus.Publish(messages, Part);
        return messages.Length;
    }

    /// <inheritdoc/>
    public void Subscribe(string subject)
    {
        lock (_gate)
        {
            if (!_isCut) _subjects.Add(subject);
        }
    }

    /// <inheritdoc/>
    public void Unsubscribe(string subject)
    {
        lock (_gate) _subjects.Remove(subject);
    }

    /// <inheritdoc/>
    public bool Append(string subject, HistoryLimits limits, IReadOnlyList<ReadOnlyMemory<byte>> envelopes, Action<bool> done)
    {
        if (IsCut) return false;
        bool isIn = _bus.Append(subject, limits, envelopes, _loop!.TimeMs);
        Answer(isHeard => done(isHeard && isIn));
        return true;
    }

    /// <inheritdoc/>
    public bool Read(string subject, HistoryLimits limits, ulong after, int most, Action<HistoryPage?> done)
    {
        if (IsCut) return false;
        HistoryPage? page = _bus.Read(subject, limits, after, most, _loop!.TimeMs);
        Answer(isHeard => done(isHeard ? page : null));
        return true;
    }

    /// <inheritdoc/>
    public ValueTask DisposeAsync()
    {
        _bus.Remove(this);
        lock (_gate)
        {
            _isCut = true;
            _subjects.Clear();
            _arriving.Clear();
        }

        return default;
    }

    /// <summary>Whether it is subscribed to the subject now. Any thread.</summary>
    /// <param name="subject">As subscribed.</param>
    internal bool Wants(string subject)
    {
        lock (_gate) return _subjects.Contains(subject);
    }

    internal void Bring(byte[] envelope, long delayMs)
    {
        bool isFirst;
        lock (_gate)
        {
            isFirst = _arriving.Count == 0;
            _arriving.Enqueue((envelope, delayMs));
        }

        if (isFirst) _loop!.Post(static l => ((MemoryBusLink)l!).Take(), this);
    }

    // A link that was cut in between does not know what became of it.
    private void Answer(Action<bool> answer)
    {
        int cuts = Cuts;
        _loop!.Post(a => ((Action<bool>)a!)(cuts == Cuts), answer);
    }

    private int Cuts
    {
        get
        {
            lock (_gate) return _cuts;
        }
    }

    private void TellState()
    {
        _due.Clear();
        if (IsCut) _listener!.OnLost("it was cut off.");
        else _listener!.OnConnected();
    }

    private void Take()
    {
        lock (_gate)
        {
            while (_arriving.TryDequeue(out (byte[] Envelope, long DelayMs) arriving))
            {
                _lastDueMs = Math.Max(_lastDueMs, _loop!.TimeMs + arriving.DelayMs);
                _due.Enqueue((arriving.Envelope, _lastDueMs));
            }
        }

        DeliverDue();
    }

    private void DeliverDue()
    {
        while (_due.TryPeek(out (byte[] Envelope, long DueMs) next) && next.DueMs <= _loop!.TimeMs)
        {
            _due.Dequeue();
            _listener!.OnEnvelope(next.Envelope);
        }

        if (_due.Count == 0 || _timer is { IsActive: true }) return;
        _timer = _loop!.StartTimer(TimeSpan.FromMilliseconds(_due.Peek().DueMs - _loop.TimeMs), static l => ((MemoryBusLink)l!).DeliverDue(), this);
    }
}
