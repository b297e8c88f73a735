namespace Whimbrel.Compat.Links;

/// <summary>
/// Collects messages that the same sessions of a server get one after the other. The first is sent at once, by one
/// native call (<see cref="Session.SendToEach"/>). Later ones are collected while each loop of these sessions still has
/// to process the previous one. So a flood of small messages costs one native send per turn of a loop, not one per
/// message.
/// A batch is sent when the first of these loops has processed its mailbox, before anything else is sent to one of the
/// sessions or ends it, and at <see cref="MostBytes"/>. Any thread may use it; no user code runs under the lock.
/// </summary>
/// <remarks>
/// A loop does not send a batch itself but asks the thread pool. What a loop sends passes messages of other threads
/// that follow a pending join of a group, such as the answer to a WebSocket handshake, and a batch may be newer than
/// these.
/// </remarks>
internal sealed class MulticastBatch
{
    /// <summary>Size at which a batch is sent, and above which a message is not collected.</summary>
    internal const int MostBytes = 32 * 1024;

    private readonly Lock _gate = new();
    private readonly List<Pull> _pulls = []; // one for each loop that ever had a session
    private readonly WeakReference<Multicasting> _free = new(null!);
    private readonly List<Task> _late = []; // sends that wait for room
    private byte[] _data = [];
    private int _length;
    private int _count;
    private Pull[] _pullsOf = []; // those of the loops of the listed sessions
    private Multicasting? _pullsFor;
    private SendResult[] _results = [];
    private volatile Multicasting? _list; // null: nothing is collected
    private int _version; // odd while a batch moves to the queues of its sessions

    /// <summary>Number of native sends so far. Each goes to all sessions of a list, once to each of their
    /// loops.</summary>
    internal long Sends { get; private set; }

    /// <summary>Takes a list for the calling thread, until <see cref="Return"/>.</summary>
    internal Multicasting Take()
    {
        lock (_gate)
        {
            if (!_free.TryGetTarget(out Multicasting? free)) return new Multicasting(this);
            _free.SetTarget(null!);
            return free;
        }
    }

    internal void Return(Multicasting own)
    {
        lock (_gate) _free.SetTarget(own);
    }

    /// <summary>Adds a message for the first <paramref name="count"/> sessions of a list.</summary>
    internal void Add(Multicasting list, int count, bool isChanged, ReadOnlySpan<byte> data)
    {
        Task? late;
        lock (_gate)
        {
            if (_list is { } other && (other != list || isChanged || data.Length > MostBytes - _length)) MoveOut();
            if (data.Length > MostBytes)
            {
                SendNow(list, count, data);
            }
            else
            {
                if (_data.Length == 0) _data = new byte[MostBytes];
                data.CopyTo(_data.AsSpan(_length));
                _length += data.Length;
                _count = count;
                if (isChanged || _pullsFor != list) FindLoops(list);
                _list = list;
                if (!AreAllBusy())
                {
                    MoveOut();
                    Ask();
                }
            }

            late = TakeLate();
        }

        Await(late);
    }

    /// <summary>Sends a message that is not collected, after the collected ones.</summary>
    internal void Send(Multicasting list, int count, ReadOnlySpan<byte> data)
    {
        Task? late;
        lock (_gate)
        {
            if (_list is not null) MoveOut();
            SendNow(list, count, data);
            late = TakeLate();
        }

        Await(late);
    }

    /// <summary>Sends the collected messages.</summary>
    internal void Flush()
    {
        if (_list is null) return;
        lock (_gate)
        {
            if (_list is not null) MoveOut();
        }
    }

    /// <summary>Number of bytes pending for this session, including collected ones.</summary>
    internal long PendingOf(Link link, Session bridge)
    {
        SpinWait spin = default;
        while (true)
        {
            int version = Volatile.Read(ref _version);
            if ((version & 1) == 0)
            {
                long pending = bridge.BytesPending;
                if (_list is { } list && IsListed(link, list)) pending += Volatile.Read(ref _length);
                Volatile.ReadBarrier();
                if (version == Volatile.Read(ref _version)) return pending;
            }

            spin.SpinOnce();
        }
    }

    /// <summary>Number of collected bytes, for all sessions together.</summary>
    internal long Pending
    {
        get
        {
            lock (_gate) return (long)_length * _count;
        }
    }

    /// <summary>True while a message that comes now would be collected: each loop still has to process the previous
    /// one. For tests.</summary>
    internal bool Collects
    {
        get
        {
            lock (_gate) return AreAllBusy();
        }
    }

    private bool IsListed(Link link, Multicasting list)
    {
        int index = link.MulticastIndex;
        Link[] links = list.Links;
        int count = Math.Min(_count, links.Length);
        // Two threads that multicast at once have a list each.
        return (index < count && ReferenceEquals(links[index], link)) || links.AsSpan(0, count).IndexOf(link) >= 0;
    }

    // ------------------------------------------------------------------ under the gate

    // The next Multicast waits for these sends, also for those of a batch that a loop or another sender sent.
    private Task? TakeLate()
    {
        if (_late.Count == 0 || Loop.Current is not null) return null;
        Task all = Task.WhenAll(_late);
        _late.Clear();
        return all;
    }

    private void MoveOut()
    {
        Multicasting list = _list!;
        _version++;
        Volatile.WriteBarrier();
        try
        {
            SendNow(list, _count, _data.AsSpan(0, _length));
        }
        finally
        {
            _length = 0;
            _list = null;
            Volatile.Write(ref _version, _version + 1);
        }
    }

    private void SendNow(Multicasting list, int count, ReadOnlySpan<byte> data)
    {
        Sends++;
        if (_results.Length < count) _results = new SendResult[Math.Max(count, 64)];
        if (Session.SendToEach(data, list.Sessions.AsSpan(0, count), _results) == count) return;
        byte[]? copy = null;
        for (int i = 0; i < count; i++)
        {
            // SendAsync had accepted the message, so the send starts here, in order. A session that has ended reports
            // that itself.
            if (_results[i] == SendResult.Full) _late.Add(list.Sessions[i].SendAsync(copy ??= data.ToArray()).AsTask());
        }
    }

    private void FindLoops(Multicasting list)
    {
        _pullsFor = list;
        List<Pull> of = [];
        foreach (Session session in list.Sessions.AsSpan(0, _count))
        {
            Loop loop = session.Loop;
            if (of.Count > 0 && ReferenceEquals(of[^1].Loop, loop) || of.Exists(p => ReferenceEquals(p.Loop, loop)))
                continue;
            Pull? pull = _pulls.Find(p => ReferenceEquals(p.Loop, loop));
            if (pull is null) _pulls.Add(pull = new Pull(this, loop));
            of.Add(pull);
        }

        _pullsOf = [.. of];
    }

    private bool AreAllBusy()
    {
        foreach (Pull pull in _pullsOf)
        {
            if (!pull.IsUnderWay) return false;
        }

        return true;
    }

    // Each loop runs this after the data sent to it, and then what was collected meanwhile is sent.
    private void Ask()
    {
        foreach (Pull pull in _pullsOf)
        {
            if (!pull.IsUnderWay) pull.IsUnderWay = pull.Loop.Post(static state => ((Pull)state!).Arrived(), pull);
        }
    }

    // ------------------------------------------------------------------

    /// <summary>Called on the thread pool when a loop has processed what was sent to it.</summary>
    private void Pulled(Pull pull)
    {
        lock (_gate)
        {
            pull.IsUnderWay = false;
            if (_list is null) return;
            MoveOut();
            Ask();
        }
    }

    // A loop must not wait. Later sends are queued after those that wait for room.
    private static void Await(Task? late)
    {
        if (late is not null) Wait.For(late, Timeout.Infinite);
    }

    private sealed class Pull(MulticastBatch batch, Loop loop) : IThreadPoolWorkItem
    {
        internal Loop Loop => loop;

        internal bool IsUnderWay { get; set; }

        internal void Arrived() => ThreadPool.UnsafeQueueUserWorkItem(this, preferLocal: false);

        void IThreadPoolWorkItem.Execute() => batch.Pulled(this);
    }
}
