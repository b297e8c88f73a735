using System.Buffers;
using System.Buffers.Text;
using System.Globalization;
using System.Text;

namespace Whimbrel.Tests.Calls;

// A foreign format: a line with a small number and a text; "-" as the number of a push.
internal sealed class Numbers() : CallFormat(FrameFormat.Line(), idBits: 8)
{
    protected internal override CallKind Read(in Frame frame, out ulong id, out ReadOnlySpan<byte> body)
    {
        bool isPush = frame.Message.StartsWith("- "u8);
        if (!Utf8Parser.TryParse(frame.Message, out id, out int digits) && !isPush)
        {
            body = default;
            return CallKind.Malformed;
        }

        body = frame.Message[(isPush ? 2 : digits + 1)..];
        return isPush ? CallKind.Push : CallKind.Numbered;
    }

    protected internal override void Write(IBufferWriter<byte> to, ulong id, ReadOnlySpan<byte> body)
    {
        string number = id == 0 ? "-" : id.ToString(CultureInfo.InvariantCulture);
        Frames.Write(to, Encoding.UTF8.GetBytes($"{number} {Encoding.UTF8.GetString(body)}"));
    }
}
