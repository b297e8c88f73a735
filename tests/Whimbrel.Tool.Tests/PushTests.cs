using System.Buffers.Binary;
using System.Diagnostics;

namespace Whimbrel.Tool.Tests;

public class PushTests
{
    [Theory]
    [InlineData(32)]
    [InlineData(100, "--batch", "7")]
    [InlineData(48, "--rate", "2000")]
    public async Task Messages_have_the_form_that_the_benchmark_checks(int size, params string[] options)
    {
        await using var tool = await RunningTool.Serve("push", ["--size", $"{size}", .. options]);
        using var peer = tool.Connect();
        await CheckAsync(peer, size, 0, 500);
    }

    [Fact]
    public async Task A_rate_is_kept()
    {
        await using var tool = await RunningTool.Serve("push", "--rate", "500");
        using var peer = tool.Connect();
        await peer.ReadAsync(32);
        var start = Stopwatch.GetTimestamp();
        await peer.ReadAsync(32 * 500);
        Assert.InRange(Stopwatch.GetElapsedTime(start).TotalSeconds, 0.9, 30);
    }

    [Fact]
    public async Task A_client_that_does_not_read_misses_messages_and_stays()
    {
        await using var tool = await RunningTool.Serve("push", "--loops", "1", "--size", "1024");
        using var slow = tool.Connect();
        using var fast = tool.Connect();
        await CheckAsync(slow, 1024, 0, 1);
        var reached = await CheckAsync(fast, 1024, 0, 30_000);
        var last = 0ul;
        for (var i = 0; last < reached; i++)
        {
            Assert.True(i < 100_000, "the slow client sees old messages only");
            last = await CheckAsync(slow, 1024, last, 1);
        }
    }

    // Reads this many messages with strictly increasing numbers, and returns the last number.
    private static async Task<ulong> CheckAsync(Peer peer, int size, ulong last, int count)
    {
        for (var i = 0; i < count; i++)
        {
            var message = await peer.ReadAsync(size);
            var sequence = BinaryPrimitives.ReadUInt64LittleEndian(message);
            Assert.True(sequence > last, $"{sequence} came after {last}");
            for (var k = 0; k < 3; k++)
            {
                var expected = Mix(sequence ^ unchecked(0x9E3779B97F4A7C15 * (ulong)(k + 1)));
                Assert.Equal(expected, BinaryPrimitives.ReadUInt64LittleEndian(message.AsSpan(8 + 8 * k)));
            }
            Assert.True(message.AsSpan(32).IndexOfAnyExcept((byte)0) < 0, "the rest is zero");
            last = sequence;
        }
        return last;
    }

    private static ulong Mix(ulong z)
    {
        unchecked
        {
            z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
            z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
            return z ^ (z >> 31);
        }
    }
}
