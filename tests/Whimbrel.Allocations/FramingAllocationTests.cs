using System.Buffers;
using System.Net.Sockets;

namespace Whimbrel.Allocations;

// A message of a framed session allocates nothing, regardless of the number of messages in a block.
public sealed class FramingAllocationTests
{
    private const int Rounds = 400;
    private const int Messages = 100;

    public static TheoryData<string> Engines => Rig.Engines;

    private sealed class Echo(FrameFormat format) : FramedSession(format)
    {
        protected override void OnFrame(in Frame frame) => SendFrame(frame.Message, frame.Header);
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void An_echo_of_messages_allocates_nothing(string engine)
    {
        FrameFormat[] formats = [FrameFormat.LengthPrefix(4, headerBytes: 2), FrameFormat.VarintPrefix(),
            FrameFormat.Delimited("--"u8), FrameFormat.Line(), FrameFormat.FixedSize(32)];
        foreach (FrameFormat format in formats)
        {
            ArrayBufferWriter<byte> block = new();
            for (int i = 0; i < Messages; i++)
                format.Write(block, "0123456789abcdef0123456789abcdef"u8, format == formats[0] ? "hd"u8 : default);
            byte[] all = block.WrittenSpan.ToArray();
            using Rig rig = new(engine, () => new Echo(format));
            Socket client = rig.Connect();
            rig.Meter.ExpectNone($"echo of {Messages} messages in {all.Length} bytes", Rounds, () =>
            {
                client.Send(all);
                rig.Read(client, all.Length);
            });
        }
    }
}
