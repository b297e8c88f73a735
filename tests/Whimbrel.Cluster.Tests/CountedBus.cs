using Whimbrel.Clusters;
using Whimbrel.Engines;

namespace Whimbrel.Tests;

// A link that counts the calls of its node, and can return Refused like a bus that is full.
internal sealed class CountedBus(MemoryBusLink link) : IGroupBus, IGroupHistory
{
    private Loop? _loop;

    internal MemoryBusLink Link { get; } = link;

    internal List<int> Batches { get; } = [];

    internal List<string> Subjects { get; } = [];

    internal int Room { get; set; } = int.MaxValue;

    internal int Reads { get; private set; }

    // Accepts requests, and responds to none of them.
    internal bool IsSilent { get; set; }

    // Time that a broker takes for each page of a history.
    internal TimeSpan ReadTime { get; set; }

    public string? Unsupported { get; set; }

    internal int Appends { get; private set; }

    internal IGroupBusListener? Listener { get; private set; }

    // Called with the length of each received envelope.
    internal Action<int>? OnEnvelope { get; set; }

    public string Description => Link.Description;

    public string Reached => Link.Reached;

    public int MaxEnvelopeBytes { get; set; } = int.MaxValue;

    public ValueTask StartAsync(Loop loop, IGroupBusListener listener, CancellationToken cancellationToken)
    {
        Listener = listener;
        _loop = loop;
        return Link.StartAsync(loop, new Listening(this), cancellationToken);
    }

    public int Publish(ReadOnlySpan<BusMessage> messages)
    {
        Batches.Add(messages.Length);
        return Link.Publish(messages[..Math.Min(messages.Length, Room)]);
    }

    public void Subscribe(string subject)
    {
        Subjects.Add(subject);
        Link.Subscribe(subject);
    }

    public void Unsubscribe(string subject)
    {
        Subjects.Remove(subject);
        Link.Unsubscribe(subject);
    }

    public bool Append(string subject, HistoryLimits limits, IReadOnlyList<ReadOnlyMemory<byte>> envelopes,
        Action<bool> done)
    {
        Appends++;
        return Link.Append(subject, limits, envelopes, done);
    }

    public bool Read(string subject, HistoryLimits limits, ulong after, int most, Action<HistoryPage?> done)
    {
        Reads++;
        if (Unsupported is not null) return false;
        return IsSilent || Link.Read(subject, limits, after, most, ReadTime == default ? done
            : page => _loop!.StartTimer(ReadTime, _ => done(page), null));
    }

    public ValueTask DisposeAsync() => Link.DisposeAsync();

    private sealed class Listening(CountedBus bus) : IGroupBusListener
    {
        public void OnConnected() => bus.Listener!.OnConnected();

        public void OnLost(string reason) => bus.Listener!.OnLost(reason);

        public void OnRoom() => bus.Listener!.OnRoom();

        public void OnEnvelope(ReadOnlySpan<byte> envelope)
        {
            bus.OnEnvelope?.Invoke(envelope.Length);
            bus.Listener!.OnEnvelope(envelope);
        }
    }
}
