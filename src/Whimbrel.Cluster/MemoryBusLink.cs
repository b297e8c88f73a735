using Whimbrel.Engines;

namespace Whimbrel.Clusters;

/// <summary>Connection of a node to a <see cref="MemoryBus"/>, created by <see cref="MemoryBus.Connect"/>.</summary>
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
    private int _cuts; // number of disconnects, so that the loop can detect that an answer was lost

    internal MemoryBusLink(MemoryBus bus) => _bus = bus;

    /// <inheritdoc/>
    public string Description => "the bus in memory";

    /// <inheritdoc/>
    public string Reached => Part == 0 ? Description : $"part {Part} of {Description}";

    /// <summary>
    /// Number of the simulated server that the node is connected to, for a broker cluster with a network partition:
    /// envelopes do not reach links with another number. Default 0. A change is not signalled to the node. Any thread.
    /// </summary>
    public int Part { get; set; }

    /// <inheritdoc/>
    public int MaxEnvelopeBytes => int.MaxValue;

    /// <summary>
    /// Whether the node is disconnected, as by a lost broker. Setting it also loses the envelopes in transit to the
    /// node. Any thread.
    /// </summary>
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
    public bool Append(string subject, HistoryLimits limits, IReadOnlyList<ReadOnlyMemory<byte>> envelopes,
        Action<bool> done)
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

    /// <summary>Returns whether the link is subscribed to a subject. Any thread.</summary>
    /// <param name="subject">Subject as subscribed.</param>
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

    // If the link was disconnected in between, the outcome is unknown to it.
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
        _timer = _loop!.StartTimer(TimeSpan.FromMilliseconds(_due.Peek().DueMs - _loop.TimeMs),
            static l => ((MemoryBusLink)l!).DeliverDue(), this);
    }
}
