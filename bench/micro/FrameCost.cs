using System.Buffers;
using Whimbrel.Testing;

namespace Whimbrel.Bench.Micro;

/// <summary>Cost of a small message in a block full of them: found by the reader only, and delivered by a
/// session.</summary>
internal static class FrameCost
{
    private const int BlockBytes = 32 * 1024;

    private static readonly byte[] _message = new byte[32];

    internal static int Run(int rounds)
    {
        _message.AsSpan().Fill((byte)'m');
        var whole = true;
        foreach ((string name, FrameFormat format) in new[]
        {
            ("length and 32 B", FrameFormat.LengthPrefix(4)),
            ("line of 32 B", FrameFormat.Line())
        })
        {
            ArrayBufferWriter<byte> block = new();
            var messages = 0;
            for (; block.WrittenCount < BlockBytes; messages++) format.Write(block, _message);
            byte[] bytes = block.WrittenSpan.ToArray();
            FrameReader reader = new(format);
            whole &= ShortStretches.Measure($"{name}, reader", rounds, messages, () => Read(reader, bytes));
            Counter session = new(format);
            using TestPeer peer = TestPeer.Connect(() => session);
            peer.OnLoop(() => whole &= ShortStretches.Measure($"{name}, session", rounds, messages,
                () => session.Offer(bytes)));
        }

        return whole ? 0 : 1;
    }

    private static int Read(FrameReader reader, ReadOnlySpan<byte> unread)
    {
        var read = 0;
        while (reader.TryRead(unread, out Frame frame))
        {
            unread = unread[frame.Bytes..];
            if (frame.Message.Length == 32) read++;
        }

        return read;
    }

    private sealed class Counter(FrameFormat format) : FramedSession(format)
    {
        private int _seen;

        /// <summary>Delivers a block as the connection does.</summary>
        internal int Offer(ReadOnlySpan<byte> block)
        {
            _seen = 0;
            return OnData(block) == block.Length ? _seen : -1;
        }

        protected override void OnFrame(in Frame frame)
        {
            if (frame.Message.Length == 32) _seen++;
        }
    }
}
