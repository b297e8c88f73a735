namespace Whimbrel.Simulation.Kernel;

// One direction of one connection. Every byte follows from the track's key and its offset, so a wrong, lost, repeated,
// moved or foreign byte is detected.
internal sealed class ByteTrack(KernelWorld world, int key)
{
    private const int PatternBytes = 1 << 16;
    private const int LongestPiece = 1 << 18;

    private static readonly byte[] s_pattern = MakePattern();

    // The pattern as a file: bytes may be sent from here instead of memory, and must be the same.
    private static readonly Lazy<FileSource> s_file = new(MakeFile);

    internal int Key { get; } = key;

    // Number of bytes that a send accepted with Queued.
    internal long Sent { get; private set; }

    internal long Received { get; private set; }

    // Same, plus bytes offered to a send but not accepted yet.
    internal long Offered { get; private set; }

    // The end was reported to the receiver.
    internal bool IsComplete { get; private set; }

    private static byte[] MakePattern()
    {
        byte[] pattern = new byte[PatternBytes + LongestPiece];
        new Random(20_000).NextBytes(pattern.AsSpan(0, PatternBytes));
        for (int i = PatternBytes; i < pattern.Length; i++) pattern[i] = pattern[i - PatternBytes];
        return pattern;
    }

    private static FileSource MakeFile()
    {
        string path = Path.GetTempFileName();
        File.WriteAllBytes(path, s_pattern);
        FileSource file = new(path);
        File.Delete(path);
        return file;
    }

    private int PlaceOf(long place) => (int)((place + (Key * 40_503L)) & (PatternBytes - 1));

    private ReadOnlySpan<byte> At(long place, int length) => s_pattern.AsSpan(PlaceOf(place), length);

    internal ReadOnlySpan<byte> NextToSend(int length) => At(Sent, length);

    internal SendResult SendFromFile(Session session, int length) =>
        session.Send(Outgoing.File(s_file.Value, PlaceOf(Sent), length));

    internal void WasSent(int length) => Sent += length;

    internal void Take(ReadOnlySpan<byte> data)
    {
        Check(data);
        Received += data.Length;
    }

    // Bytes offered to a send that may not be accepted.
    internal void Check(ReadOnlySpan<byte> data)
    {
        if (IsComplete && Received + data.Length > Offered)
            world.Fail($"track {Key}: {data.Length} bytes after its end");
        if (Received + data.Length > Sent)
            world.Fail($"track {Key}: {Received + data.Length} bytes received, {Sent} sent");
        Offered = Math.Max(Offered, Received + data.Length);
        ReadOnlySpan<byte> expected = At(Received, data.Length);
        int same = expected.CommonPrefixLength(data);
        if (same < data.Length)
            world.Fail($"track {Key}: byte {Received + same} is {data[same]:x2} instead of {expected[same]:x2}");
    }

    // Bytes accepted a moment ago.
    internal void CheckTaken(ReadOnlySpan<byte> data)
    {
        if (!At(Received - data.Length, data.Length).SequenceEqual(data))
            world.Fail($"track {Key}: bytes that were lent have changed");
    }

    // The peer's FIN: everything sent must have arrived.
    internal void End()
    {
        if (IsComplete) world.Fail($"track {Key}: ended twice");
        IsComplete = true;
        if (Offered != Sent) world.Fail($"track {Key}: the end came after {Offered} of {Sent} bytes");
    }
}
