using System.Text;
using Whimbrel.Engines;

namespace Whimbrel.Clusters;

/// <summary>
/// A group of a <see cref="Cluster"/> with a history on the bus: a session resumes after the last message that its
/// client received. Thread-safe. Created by <see cref="Cluster.RecoverableGroup"/>; lives as long as its cluster.
/// </summary>
/// <remarks>
/// The contract, by number; each number has a test:
/// <list type="number">
/// <item>Members on all nodes, including the publishing one, receive messages from the stream only, in its order and
/// once each. Delivery therefore waits for the broker.</item>
/// <item>Resuming sends all messages after the position and then new ones, in order, without gap or duplicate; or it
/// fails, and the session is no member.</item>
/// <item>A history that was trimmed after the position, or a replaced stream, is reported to resuming sessions and to
/// members.</item>
/// <item>While the broker is away broadcasts are queued up to the limit, then rejected. Possible losses with the broker
/// are reported by <see cref="ClusterOptions.OnGap"/>; nothing is sent twice.</item>
/// <item>Entries of the stream that are invalid, unsigned or of another group are dropped and counted.</item>
/// </list>
/// A node reads the stream when another node announces new entries, and every <see cref="ClusterOptions.MarkInterval"/>
/// in case an announcement was lost. This runs on the node's loop.
/// </remarks>
public sealed class RecoverableGroup
{
    private const int MostInBatch = 256;
    private const int MostBatchBytes = 1 << 20; // or one larger entry
    private const int MostInPage = 256;
    private const int KeptForReaders = 64; // beyond the history, so that entries are not trimmed before nodes read them
    private const int LeastInBatch = 16;
    private const int MostRunning = 16;
    private const int MostResuming = 65_536;
    private const long PatienceMs = 4_500; // so that each join or resume completes within 5 s
    private static readonly TimeSpan s_retry = TimeSpan.FromMilliseconds(20);
    private static readonly TimeSpan s_look = TimeSpan.FromMilliseconds(250);

    private readonly Lock _gate = new();
    private readonly Queue<byte[]> _queue = []; // under the gate, with the four below
    private int _queuedBytes;
    private ulong _sequence;
    private bool _isClosed;
    private int _resuming;

    private readonly Cluster _cluster;
    private readonly IGroupHistory _history;
    private readonly Loop _loop;
    private readonly HistoryLimits _kept;
    private readonly SessionGroup _members;
    private readonly byte[] _nameBytes;
    private readonly List<Resumption> _waiting = []; // until the node has a position, or has reached theirs
    private readonly Queue<Resumption> _next = [];
    private readonly List<Resumption> _running = [];
    private GroupPosition? _place; // position of the last message delivered to members
    private LoopTimer? _retry; // members had no room: until then nothing is read
    private bool _isAppending;
    private bool _isReading;
    private bool _isNews;
    private bool _mustRead; // local members have not received all appended entries: more would trim them
    private long _answeredAtMs;
    private LoopTimer? _patience;

    internal RecoverableGroup(Cluster cluster, IGroupHistory history, Loop loop, string name,
        RecoverableOptions options)
    {
        (_cluster, _history, _loop, Options) = (cluster, history, loop, options);
        _kept = options.History with { MaxCount = options.History.MaxCount + KeptForReaders };
        _members = new SessionGroup(name);
        _nameBytes = Encoding.UTF8.GetBytes(name);
        Subject = Subjects.OfHistory(cluster.Application, name);
    }

    /// <summary>
    /// Name of the group, compared ordinally on all nodes. Independent of the names of <see cref="Cluster.Group"/>.
    /// </summary>
    public string Name => _members.Name;

    /// <summary>Number of members on this node; a snapshot.</summary>
    public int LocalCount => _members.Count;

    internal RecoverableOptions Options { get; }

    internal string Subject { get; }

    internal ReadOnlySpan<byte> NameBytes => _nameBytes;

    /// <summary>
    /// Adds a session for new messages. Load its state after this has completed: then no message after the position is
    /// missed.
    /// </summary>
    /// <param name="session">Connected session that is no member.</param>
    /// <returns>
    /// <see cref="ResumeOutcome.Recovered"/> with nothing sent, <see cref="ResumeOutcome.Unavailable"/>,
    /// <see cref="ResumeOutcome.NotSupported"/> or <see cref="ResumeOutcome.Ended"/>. Completes on the thread pool.
    /// </returns>
    public Task<ResumeResult> JoinAsync(Session session) => EnterAsync(session, null);

    /// <summary>Sends a session all messages after a position and adds it as a member.</summary>
    /// <param name="session">Connected session that is no member.</param>
    /// <param name="position">
    /// Position of the client's last message, or of the result of an earlier join. May be untrusted.
    /// </param>
    /// <returns>Outcome and new position. Completes on the thread pool.</returns>
    public Task<ResumeResult> ResumeAsync(Session session, GroupPosition position) => EnterAsync(session, position);

    /// <summary>Removes a session, also one that is resuming. A session that ends is removed automatically.</summary>
    /// <param name="session">The session.</param>
    public void Leave(Session session)
    {
        ArgumentNullException.ThrowIfNull(session);
        _loop.Post(s => LeaveHere((Session)s!), session);
    }

    /// <summary>
    /// Appends a message to the stream, from which members on all nodes receive it. Never waits. Messages of one caller
    /// keep their order.
    /// </summary>
    /// <param name="data">Message, at most <see cref="ClusterOptions.MaxPayloadBytes"/>. It is copied.</param>
    /// <returns>
    /// <see cref="SendResult.Queued"/>; or <see cref="SendResult.Full"/> if the queue to the broker is full or the node
    /// has left. Then no member receives it.
    /// </returns>
    /// <exception cref="ArgumentException">The message is too large.</exception>
    public SendResult Broadcast(ReadOnlySpan<byte> data)
    {
        _cluster.CheckPayload(data);
        if (data.IsEmpty) return SendResult.Queued;
        lock (_gate)
        {
            int length = _cluster.EnvelopeLength(_nameBytes.Length, data.Length);
            if (_isClosed || _queuedBytes + length > Options.QueueLimitBytes) return SendResult.Full;
            _queue.Enqueue(_cluster.Seal(_nameBytes, ++_sequence, data));
            _queuedBytes += length;
            if (_queue.Count > 1) return SendResult.Queued; // the loop is scheduled, or the bus answers
        }

        _loop.Post(static g => ((RecoverableGroup)g!).Append(), this);
        return SendResult.Queued;
    }

    /// <summary>Appends a text as UTF-8, as <see cref="Broadcast(ReadOnlySpan{byte})"/> does.</summary>
    /// <param name="text">Text to send.</param>
    public SendResult Broadcast(string text) => Broadcast(Encoding.UTF8.GetBytes(text));

    /// <summary>Returns the name.</summary>
    public override string ToString() => Name;

    private Task<ResumeResult> EnterAsync(Session session, GroupPosition? from)
    {
        ArgumentNullException.ThrowIfNull(session);
        Resumption one = new(session, from);
        if (Interlocked.Increment(ref _resuming) > MostResuming)
            End(one, ResumeOutcome.Unavailable, $"{MostResuming} sessions resume in this group already.");
        else _loop.Post(o => Enter((Resumption)o!), one);
        return one.Task;
    }

    // ------------------------------------------------------------------ on the node's loop

    /// <summary>
    /// Appends queued messages and reads new entries. Called with each tick, after a reconnect, and for each
    /// announcement.
    /// </summary>
    internal void Look()
    {
        Append();
        Follow();
    }

    internal void Close()
    {
        int left;
        lock (_gate)
        {
            _isClosed = true;
            left = _isAppending ? 0 : _queue.Count; // a pending append is reported when the bus answers
            if (left > 0) _queue.Clear();
        }

        _retry?.Cancel();
        _patience?.Cancel();
        if (left > 0) _cluster.TellNotAppended(Name, left);
        foreach (Resumption one in _waiting.Concat(_next).Concat(_running).ToArray())
            End(one, ResumeOutcome.Unavailable, "The node has left its cluster.");
        _waiting.Clear();
        _next.Clear();
        _running.Clear();
    }

    private void Append()
    {
        if (_isAppending || _mustRead || !_cluster.IsReached) return;
        // At most a quarter of the history at once, and the next after local members have received it. Otherwise a
        // burst is trimmed before it is read.
        int mostInBatch = Math.Clamp(Options.History.MaxCount / 4, LeastInBatch, MostInBatch);
        long mostBatchBytes = Math.Min(MostBatchBytes, Options.History.MaxBytes / 4);
        List<ReadOnlyMemory<byte>> batch = [];
        int tooLarge = 0;
        lock (_gate)
        {
            for (; _queue.TryPeek(out byte[]? first) && first.Length > _cluster.MostEnvelopeBytes; tooLarge++)
                _queuedBytes -= _queue.Dequeue().Length;
            int bytes = 0;
            foreach (byte[] envelope in _queue)
            {
                bytes += envelope.Length;
                if (batch.Count == mostInBatch || envelope.Length > _cluster.MostEnvelopeBytes
                    || (bytes > mostBatchBytes && batch.Count > 0))
                    break;
                batch.Add(envelope);
            }
        }

        // The broker would never accept them, and later messages would wait for ever.
        if (tooLarge > 0) _cluster.TellNotAppended(Name, tooLarge);
        if (batch.Count == 0) return;
        if (_history.Unsupported is not null)
        {
            // They will never be accepted: reported now instead of when the queue is full.
            Appended(batch.Count, isIn: false);
            return;
        }

        _isAppending = _history.Append(Subject, _kept, batch, isIn => Appended(batch.Count, isIn));
    }

    private void Appended(int count, bool isIn)
    {
        _isAppending = false;
        lock (_gate)
        {
            for (int i = 0; i < count; i++) _queuedBytes -= _queue.Dequeue().Length;
        }

        _mustRead = isIn;
        _cluster.Appended(this, count, isIn);
        if (_isClosed) Close();
        else Look();
    }

    private void Follow()
    {
        _isNews = true;
        if (_isReading || _isClosed || _retry is { IsActive: true } || !_cluster.IsReached) return;
        _isNews = false;
        _isReading = _history.Read(Subject, _kept, _place?.Offset ?? ulong.MaxValue, MostInPage, Followed);
        if (!_isReading) EndUnsupported();
    }

    private void Followed(HistoryPage? page)
    {
        _isReading = false;
        _answeredAtMs = _loop.TimeMs;
        if (_isClosed) return;
        if (page is null)
        {
            _mustRead = false; // the answer or the broker is lost: the next append does not wait for it
            EndUnsupported();
            foreach (Resumption one in _waiting)
                End(one, ResumeOutcome.Unavailable, $"{_cluster.BusText} did not give the history.");
            _waiting.Clear();
            return;
        }

        bool isAll = Give(page);
        if (isAll && _place is { } at && at.Offset >= page.Last && _mustRead)
        {
            _mustRead = false;
            Append();
        }

        if (isAll && _isNews) Follow();
        else if (!isAll) _retry = _loop.StartTimer(s_retry, static g => ((RecoverableGroup)g!).Follow(), this);
        if (_place is not { } place) return;
        foreach (Resumption one in _waiting.ToArray())
        {
            if (!one.IsFromNow && one.At.Epoch == place.Epoch && one.At.Offset > place.Offset) continue;
            _waiting.Remove(one);
            Enter(one);
        }
    }

    /// <summary>Delivers new entries to the members.</summary>
    /// <returns>False if a loop was full: the rest is delivered later.</returns>
    private bool Give(HistoryPage page)
    {
        if (_place is not { } place)
        {
            _place = new GroupPosition(page.Epoch, page.Last);
            return true;
        }

        bool isOther = page.Epoch != place.Epoch || page.Last < place.Offset;
        if (isOther || page.First > place.Offset + 1)
        {
            GroupPosition goesOn = new(page.Epoch, page.First - 1);
            if (!isOther) _cluster.CountMissed((long)(goesOn.Offset - place.Offset));
            _place = place = goesOn;
            _cluster.Guard(() => Options.OnBroken?.Invoke(_members, goesOn,
                isOther ? ResumeOutcome.Replaced : ResumeOutcome.Trimmed));
        }

        foreach (HistoryEntry entry in page.Entries)
        {
            if (entry.Offset != place.Offset + 1) continue; // the stream was replaced after the request
            GroupPosition at = place with { Offset = entry.Offset };
            if (!Deliver(_members, at, entry, out _)) return false;
            _place = place = at;
        }

        if (place.Offset < page.Last) _isNews = true;
        return true;
    }

    private bool Deliver(SessionGroup to, GroupPosition at, in HistoryEntry entry, out bool isRead)
    {
        isRead = _cluster.TryReadEntry(entry.Envelope.Span, _nameBytes, out ReadOnlySpan<byte> payload);
        if (!isRead) return true;
        try
        {
            return Options.Deliver(to, at, payload) != SendResult.Full;
        }
        catch (Exception e)
        {
            _cluster.Report(e);
            return true;
        }
    }

    /// <summary>Ends all waiting sessions if the broker keeps no history.</summary>
    private void EndUnsupported()
    {
        if (_history.Unsupported is not { } why) return;
        foreach (Resumption one in _waiting.Concat(_next).Concat(_running).ToArray())
            End(one, ResumeOutcome.NotSupported, why);
        _waiting.Clear();
        _next.Clear();
        _running.Clear();
    }

    /// <summary>Ends sessions that have waited too long for an answer of the bus.</summary>
    private void EndLate()
    {
        long before = _loop.TimeMs - PatienceMs;
        string why = $"{_cluster.BusText} has not answered for {PatienceMs / 1000.0} s.";
        foreach (Resumption one in _running.Where(r => r.SinceMs <= before).ToArray())
        {
            _running.Remove(one);
            End(one, ResumeOutcome.Unavailable, why);
        }

        if (_answeredAtMs <= before)
        {
            foreach (Resumption one in _waiting.Where(r => r.SinceMs <= before).ToArray())
            {
                _waiting.Remove(one);
                End(one, ResumeOutcome.Unavailable, why);
            }

            for (int left = _next.Count; left > 0; left--)
            {
                Resumption one = _next.Dequeue();
                if (one.SinceMs <= before) End(one, ResumeOutcome.Unavailable, why);
                else _next.Enqueue(one);
            }
        }

        StartNext();
        if (_waiting.Count + _next.Count + _running.Count == 0) _patience?.Cancel();
    }

    private void Enter(Resumption one)
    {
        one.SinceMs = _loop.TimeMs;
        if (_patience is not { IsActive: true } && !_isClosed)
            _patience = _loop.StartTimer(s_look, static g => ((RecoverableGroup)g!).EndLate(), this, s_look);
        if (_isClosed || !_cluster.IsReached)
        {
            End(one, ResumeOutcome.Unavailable,
                _isClosed ? "The node has left its cluster." : $"{_cluster.BusText} is not reached.");
        }
        else if (_history.Unsupported is { } why)
        {
            End(one, ResumeOutcome.NotSupported, why);
        }
        else if (_place is not { } place)
        {
            _waiting.Add(one);
            Follow();
        }
        else if (one.IsFromNow)
        {
            one.At = place;
            Admit(one);
        }
        else
        {
            _next.Enqueue(one);
            StartNext();
        }
    }

    private void StartNext()
    {
        while (_running.Count < MostRunning && _next.TryDequeue(out Resumption? one))
        {
            _running.Add(one);
            ReadFor(one);
        }
    }

    private void ReadFor(Resumption one)
    {
        one.SinceMs = _loop.TimeMs;
        if (one.HasLeft || !one.Session.IsConnected) Ended(one, ResumeOutcome.Ended);
        else if (_isClosed || !_history.Read(Subject, _kept, one.At.Offset, MostInPage, page => Resume(one, page)))
            Ended(one, ResumeOutcome.Unavailable);
    }

    private void ReadAgainFor(Resumption one)
    {
        if (_running.Contains(one)) ReadFor(one);
    }

    private void Resume(Resumption one, HistoryPage? page)
    {
        _answeredAtMs = _loop.TimeMs;
        if (!_running.Contains(one)) return; // the session's resumption has ended meanwhile
        if (_isClosed || page is null || _place is not { } place)
        {
            Ended(one, ResumeOutcome.Unavailable);
        }
        else if (page.Epoch != one.At.Epoch || one.At.Offset > page.Last)
        {
            Ended(one, ResumeOutcome.Replaced);
        }
        else if (page.First > one.At.Offset + 1 || page.Last - one.At.Offset > (ulong)Options.History.MaxCount)
        {
            Ended(one, ResumeOutcome.Trimmed);
        }
        else if (place.Epoch != one.At.Epoch || one.At.Offset > place.Offset)
        {
            // The client has received more on another node than this one has read.
            _running.Remove(one);
            _waiting.Add(one);
            Follow();
            StartNext();
        }
        else
        {
            Catch(one, place, page);
        }
    }

    /// <summary>Sends entries up to the members' position. Later entries are delivered to all members.</summary>
    private void Catch(Resumption one, GroupPosition place, HistoryPage page)
    {
        foreach (HistoryEntry entry in page.Entries)
        {
            if (entry.Offset > place.Offset) break;
            GroupPosition at = place with { Offset = entry.Offset };
            if (!Deliver(one.Alone, at, entry, out bool isRead))
            {
                _loop.StartTimer(s_retry, _ => ReadAgainFor(one), null);
                return;
            }

            one.At = at;
            if (isRead) one.Count++;
        }

        if (one.At != place)
        {
            ReadFor(one);
            return;
        }

        _running.Remove(one);
        Admit(one);
        StartNext();
    }

    private void Admit(Resumption one)
    {
        bool isThere = !one.HasLeft && one.Session.IsConnected;
        if (isThere) _members.Join(one.Session);
        End(one, isThere ? ResumeOutcome.Recovered : ResumeOutcome.Ended);
    }

    private void Ended(Resumption one, ResumeOutcome outcome)
    {
        if (_running.Remove(one))
            End(one, outcome,
                outcome == ResumeOutcome.Unavailable ? $"{_cluster.BusText} did not give the history." : null);
        StartNext();
    }

    private void End(Resumption one, ResumeOutcome outcome, string? reason = null)
    {
        Interlocked.Decrement(ref _resuming);
        one.End(outcome, reason);
    }

    private void LeaveHere(Session session)
    {
        foreach (Resumption one in _waiting.Concat(_next).Concat(_running))
        {
            if (ReferenceEquals(one.Session, session)) one.HasLeft = true;
        }

        _members.Leave(session);
    }
}
