using System.Net;
using System.Runtime.InteropServices;
using Whimbrel.Datagrams;

namespace Whimbrel.Tests;

// Safe: lent memory is freed after the queue that uses it.
public sealed unsafe class DatagramQueueTests
{
    private const int LentBytes = 8_000;

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void It_holds_what_a_list_of_datagrams_holds(bool keepsRuns)
    {
        foreach (int seed in Seeds.Some(50))
        {
            Random random = new(seed);
            DatagramQueue queue = new() { KeepsRuns = keepsRuns };
            List<(byte[] Data, DatagramPeer Peer)> model = [];
            byte* lent = (byte*)NativeMemory.Alloc(LentBytes);
            for (int i = 0; i < 300; i++)
            {
                DatagramPeer peer = new(IPAddress.Loopback, random.Next(1, 4));
                switch (random.Next(6))
                {
                    case 0:
                        byte[] one = Bytes(random, random.Next(0, 3_000));
                        queue.Append(one, one.Length, in peer);
                        model.Add((one, peer));
                        break;
                    case 1:
                        byte[] run = Bytes(random, random.Next(1, random.Next(10) == 0 ? 300_000 : 5_000));
                        AppendRun(queue, model, run, random.Next(1, 1_500), in peer);
                        break;
                    case 2:
                        // A batch: datagrams partly or fully in lent memory, and others; then the memory is reclaimed.
                        random.NextBytes(new Span<byte>(lent, LentBytes));
                        queue.Lend(lent, LentBytes);
                        int start = random.Next(LentBytes - 1);
                        AppendRun(queue, model, new ReadOnlySpan<byte>(lent + start, random.Next(1, LentBytes - start)),
                            random.Next(1, 2_000), in peer);
                        queue.Append(new ReadOnlySpan<byte>(lent, 10), 10, in peer);
                        model.Add((new ReadOnlySpan<byte>(lent, 10).ToArray(), peer));
                        Remove(queue, model, random);
                        if (random.Next(2) == 0) queue.Lend(null, 0);
                        byte[] own = Bytes(random, 20);
                        queue.Append(own, own.Length, in peer);
                        model.Add((own, peer));
                        Check(queue, model, seed);
                        queue.Lend(null, 0);
                        queue.EndLoan();
                        new Span<byte>(lent, LentBytes).Fill(0xDD);
                        break;
                    case 3 when !keepsRuns && model.Count > 1:
                        queue.RemoveBehind(1);
                        model.RemoveAt(1);
                        break;
                    default:
                        Remove(queue, model, random);
                        break;
                }

                Check(queue, model, seed);
            }

            queue.Free();
            Assert.Equal((0, 0), (queue.Count, queue.Bytes));
            NativeMemory.Free(lent);
        }
    }

    [Fact]
    public void A_loan_is_where_it_lies_and_the_rest_is_copied_at_its_end()
    {
        DatagramQueue queue = new() { KeepsRuns = true };
        byte* lent = (byte*)NativeMemory.AllocZeroed(2_000);
        DatagramPeer peer = new(IPAddress.Loopback, 1);
        queue.Lend(lent, 1_000);
        queue.AppendRun(new ReadOnlySpan<byte>(lent + 100, 900), 300, in peer);
        queue.Append(new ReadOnlySpan<byte>(lent + 1_000, 5), 5, in peer);
        Assert.True(queue[0].Data == lent + 100);
        Assert.False(queue[1].Data == lent + 1_000);
        queue.Remove(1);
        Assert.True(queue[0].Data == lent + 400);
        queue.Lend(null, 0);
        queue.EndLoan();
        Assert.False(queue[0].Data == lent + 400);
        Assert.Equal((2, 600, 300, 3), (queue[0].Count, queue[0].TotalBytes, queue[0].Length, queue.Count));
        queue.Free();
        NativeMemory.Free(lent);
    }

    private static byte[] Bytes(Random random, int count)
    {
        byte[] bytes = new byte[count];
        random.NextBytes(bytes);
        return bytes;
    }

    private static void AppendRun(DatagramQueue queue, List<(byte[] Data, DatagramPeer Peer)> model,
        ReadOnlySpan<byte> run, int size, in DatagramPeer peer)
    {
        queue.AppendRun(run, size, in peer);
        foreach (byte[] part in run.ToArray().Chunk(size)) model.Add((part, peer));
    }

    private static void Remove(DatagramQueue queue, List<(byte[] Data, DatagramPeer Peer)> model, Random random)
    {
        int count = random.Next(model.Count + 1);
        queue.Remove(count);
        model.RemoveRange(0, count);
    }

    private static void Check(DatagramQueue queue, List<(byte[] Data, DatagramPeer Peer)> model, int seed)
    {
        Assert.Equal((model.Count, model.Sum(static d => d.Data.Length)), (queue.Count, (int)queue.Bytes));
        int index = 0;
        for (int i = 0; i < queue.EntryCount; i++)
        {
            QueuedDatagram entry = queue[i];
            int offset = 0;
            for (int j = 0; j < entry.Count; j++, index++)
            {
                int length = Math.Min(entry.Length, entry.TotalBytes - offset);
                // A caller that sends the first datagram separately uses Length only.
                if (j == 0)
                    Assert.True(entry.Length == length && entry.FullLength >= length,
                        $"seed {seed}: datagram {index} is {length} bytes, its entry says {entry.Length}");
                Assert.True(new ReadOnlySpan<byte>(entry.Data + offset, length).SequenceEqual(model[index].Data),
                    $"seed {seed}: datagram {index}");
                Assert.Equal(model[index].Peer, entry.Peer);
                offset += length;
            }

            Assert.Equal(entry.TotalBytes, offset);
        }

        Assert.Equal(model.Count, index);
    }
}
