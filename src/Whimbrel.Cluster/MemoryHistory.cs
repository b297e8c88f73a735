namespace Whimbrel.Clusters;

/// <summary>A stream in memory, trimmed to its limits. Under the gate of its bus.</summary>
internal sealed class MemoryHistory(ulong epoch)
{
    private readonly Queue<(byte[] Envelope, long AtMs)> _entries = [];
    private ulong _last;
    private long _bytes;

    internal void Append(IReadOnlyList<ReadOnlyMemory<byte>> envelopes, HistoryLimits limits, long nowMs)
    {
        foreach (ReadOnlyMemory<byte> envelope in envelopes)
        {
            _entries.Enqueue((envelope.ToArray(), nowMs));
            _last++;
            _bytes += envelope.Length;
        }

        Trim(limits, nowMs);
    }

    internal HistoryPage Read(ulong after, int most, HistoryLimits limits, long nowMs)
    {
        Trim(limits, nowMs);
        ulong first = _last - (ulong)_entries.Count + 1;
        ulong from = after >= _last ? _last + 1 : Math.Max(after + 1, first);
        HistoryEntry[] page = [.. _entries.Skip((int)(from - first)).Take(most)
            .Select((e, i) => new HistoryEntry(from + (ulong)i, e.Envelope))];
        return new HistoryPage(epoch, first, _last, page);
    }

    private void Trim(HistoryLimits limits, long nowMs)
    {
        long before = nowMs - (long)limits.MaxAge.TotalMilliseconds;
        while (_entries.TryPeek(out (byte[] Envelope, long AtMs) oldest)
            && (_entries.Count > limits.MaxCount || oldest.AtMs < before
                || (_bytes > limits.MaxBytes && _entries.Count > 1)))
        {
            _entries.Dequeue();
            _bytes -= oldest.Envelope.Length;
        }
    }
}
