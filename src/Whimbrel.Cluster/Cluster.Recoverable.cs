using System.Collections.Concurrent;

namespace Whimbrel.Clusters;

// Support for recoverable groups: creates their envelopes, announces new entries to the other nodes, and counts.
public sealed partial class Cluster
{
    private readonly Lock _recoverableGate = new();
    private readonly ConcurrentDictionary<string, RecoverableGroup> _recoverable = new(StringComparer.Ordinal);

    /// <summary>
    /// Returns the recoverable group of a name: its last messages are kept, so that clients can resume. The node reads
    /// it from the first call until it leaves the cluster.
    /// </summary>
    /// <param name="name">
    /// Any characters, at most 256 bytes of UTF-8. The names are independent of those of <see cref="Group"/>.
    /// </param>
    /// <param name="options">Options. Those of the first call for a name are used.</param>
    /// <exception cref="ArgumentException">The name is too long, or an option is out of its range.</exception>
    /// <exception cref="NotSupportedException">The bus keeps no history.</exception>
    /// <exception cref="InvalidOperationException">
    /// The node has already opened <see cref="ClusterOptions.MaxRecoverableGroups"/> groups.
    /// </exception>
    public RecoverableGroup RecoverableGroup(string name, RecoverableOptions options)
    {
        CheckName(name);
        ArgumentNullException.ThrowIfNull(options);
        options.Check();
        if (_recoverable.TryGetValue(name, out RecoverableGroup? known)) return known;
        if (_bus is not IGroupHistory history)
            throw new NotSupportedException($"{_bus.Description} keeps no history: a recoverable group needs a bus "
                + $"that is an {nameof(IGroupHistory)}, as those of Redis and NATS (one server with JetStream) are.");
        RecoverableGroup made;
        lock (_recoverableGate)
        {
            if (_recoverable.TryGetValue(name, out known)) return known;
            if (_recoverable.Count >= _options.MaxRecoverableGroups)
                throw new InvalidOperationException($"This node has opened {_recoverable.Count} recoverable groups, "
                    + $"all that {nameof(ClusterOptions)}.{nameof(ClusterOptions.MaxRecoverableGroups)} lets it.");
            _recoverable[name] = made = new RecoverableGroup(this, history, _loop, name, options);
        }

        _loop.Post(g => Open((RecoverableGroup)g!), made);
        return made;
    }

    internal bool IsReached => _isConnected;

    internal string BusText => _bus.Reached;

    internal int MostEnvelopeBytes => _bus.MaxEnvelopeBytes;

    internal int EnvelopeLength(int group, int payload) => _form.Length(group, payload);

    /// <summary>Creates a signed envelope for a stream.</summary>
    internal byte[] Seal(ReadOnlySpan<byte> group, ulong sequence, ReadOnlySpan<byte> payload) =>
        _form.Entry(group, sequence, payload, _key);

    // ------------------------------------------------------------------ on the node's loop

    internal void CountMissed(long count) => Interlocked.Add(ref _missed, count);

    /// <summary>
    /// Handles the bus's answer to an append: announces new entries to the other nodes. If the announcement is lost,
    /// they read them with their next tick.
    /// </summary>
    internal void Appended(RecoverableGroup group, int count, bool isIn)
    {
        if (!isIn)
        {
            TellNotAppended(group.Name, count);
            return;
        }

        Interlocked.Add(ref _published, count);
        if (_isDisposed) return;
        Outgoing news = _form.Control(EnvelopeKind.News, group.NameBytes, group.Subject, default);
        news.Sequence = 1;
        TryControl(news);
    }

    internal void TellNotAppended(string group, int count)
    {
        Interlocked.Add(ref _dropped, count);
        TellGap(NodeId, group, count);
    }

    /// <summary>Validates an entry, because any process with write access may have appended it.</summary>
    internal bool TryReadEntry(ReadOnlySpan<byte> bytes, ReadOnlySpan<byte> group, out ReadOnlySpan<byte> payload)
    {
        payload = default;
        bool isRead = bytes.Length <= _options.MaxPayloadBytes + Envelope.MostOverheadBytes
            && Envelope.TryRead(bytes, _key, out Envelope envelope) == EnvelopeResult.Read
            && envelope.Kind == EnvelopeKind.Entry && envelope.Group.SequenceEqual(group)
            && !(payload = envelope.Payload).IsEmpty;
        Interlocked.Increment(ref isRead ? ref _received : ref _refused);
        return isRead;
    }

    private void Open(RecoverableGroup group)
    {
        if (_isDisposed)
        {
            group.Close();
            return;
        }

        if (_isConnected) _bus.Subscribe(group.Subject);
        group.Look();
    }

    private void Look()
    {
        foreach (RecoverableGroup group in _recoverable.Values) group.Look();
    }
}
