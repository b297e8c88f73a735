namespace Whimbrel.Tests;

// Reads bytes that arrive in parts, split at these places, as a session does.
internal delegate List<string> ReadInParts(ReadOnlySpan<byte> bytes, params ReadOnlySpan<int> arrivals);

internal static class Splits
{
    // Whole, in two and three parts, and byte by byte: the result is always the same.
    internal static void AllGive(string[] said, byte[] bytes, ReadInParts read)
    {
        Assert.Equal(said, read(bytes, bytes.Length));
        for (int first = 0; first <= bytes.Length; first++)
        {
            for (int second = first; second <= bytes.Length; second += 7)
                Assert.Equal(said, read(bytes, first, second, bytes.Length));
        }

        Assert.Equal(said, read(bytes, [.. Enumerable.Range(0, bytes.Length + 1)]));
    }
}
