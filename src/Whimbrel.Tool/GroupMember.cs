namespace Whimbrel.Tool;

/// <summary>Prints and counts datagrams of a group, by sender if they are numbered. Runs on its loop; the counts are
/// for any thread.</summary>
internal sealed class GroupMember(JoinSettings settings, LinePrinter lines, Action<string> tell) : DatagramHandler
{
    // Because senders can be forged, those beyond this number are counted together.
    private const int MaxSources = 1000;

    private readonly Dictionary<DatagramPeer, ulong> _expected = [];
    private readonly TaskCompletionSource _gotAll = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private long _count;
    private long _missing;
    private int _sources;

    /// <summary>Completes with the last requested datagram.</summary>
    internal Task GotAll => _gotAll.Task;

    internal long Count => Volatile.Read(ref _count);

    /// <summary>Number of messages that have not arrived.</summary>
    internal long Missing => Volatile.Read(ref _missing);

    internal int Sources => Volatile.Read(ref _sources);

    protected override void OnJoined(MulticastGroup group) => tell($"joined {group}");

    protected override void OnReceived(ReadOnlySpan<byte> datagram, in DatagramPeer peer)
    {
        if (settings.Count > 0 && _count == settings.Count) return;
        NoteSource(datagram, in peer);
        if (!settings.Quiet) lines.Add($"{peer} {datagram.Length} bytes: {DatagramText.Describe(datagram)}");
        Volatile.Write(ref _count, _count + 1);
        if (_count == settings.Count) _gotAll.TrySetResult();
    }

    private void NoteSource(ReadOnlySpan<byte> datagram, in DatagramPeer peer)
    {
        bool isKnown = _expected.TryGetValue(peer, out ulong expected);
        if (!isKnown && _expected.Count == MaxSources) return;
        bool isNumbered = PushMessage.TryRead(datagram, out ulong sequence);
        // A late message was counted as missing when its successor arrived. Messages before the first one are not
        // counted.
        if (isNumbered && expected != 0 && sequence > expected)
            Volatile.Write(ref _missing, _missing + (long)(sequence - expected));
        else if (isNumbered && expected != 0 && sequence < expected)
            Volatile.Write(ref _missing, Math.Max(0, _missing - 1));
        _expected[peer] = isNumbered ? Math.Max(expected, sequence + 1) : expected;
        Volatile.Write(ref _sources, _expected.Count);
    }
}
