using System.Text;

namespace Whimbrel.Http.Tests.WebSockets;

// Whole messages from bytes that other code received, and frames for bytes that other code sends. FrameTests covers the
// rules.
public sealed class MessageReaderTests
{
    private static readonly string _long = new('x', 70_000);

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void A_written_message_is_read_at_every_cut(bool ofClient)
    {
        byte[] bytes = [.. Frame(WebSocketPart.Text, "aé"), .. Frame(WebSocketPart.Ping, "p"),
            .. Frame(WebSocketPart.Binary, ""), .. Frame(WebSocketPart.Pong, new string('q', 125)),
            .. Frame(WebSocketPart.Close, "\u0003\u00E8bye", latin: true)];
        string expected = $"Text aé;Ping p;Binary ;Pong {new string('q', 125)};Close Normal bye";
        for (int cut = 0; cut <= bytes.Length; cut++)
            Assert.Equal(expected, Read(ofClient, 1000, bytes[..cut], bytes[cut..]));
        Assert.Equal(expected, Read(ofClient, 1000, [.. bytes.Select(b => new[] { b })]));
        Assert.Equal($"Binary {_long}", Read(ofClient, 70_000, Frame(WebSocketPart.Binary, _long)));

        byte[] Frame(WebSocketPart part, string text, bool latin = false)
        {
            byte[] payload = latin ? Encoding.Latin1.GetBytes(text) : Encoding.UTF8.GetBytes(text);
            byte[] frame = new byte[WebSocketFrames.LengthOf(payload.Length, ofClient)];
            Assert.Equal(frame.Length, WebSocketFrames.Write(frame, part, payload, ofClient));
            return frame;
        }
    }

    [Theory]
    [InlineData("01 61|89 70|80 62", "Ping p;Text ab")]
    [InlineData("01 C3|80 A9", "Text é")]
    [InlineData("01 C3|80 61", "! InvalidPayload Text is not valid UTF-8")]
    [InlineData("81 FF", "! InvalidPayload Text is not valid UTF-8")]
    [InlineData("01 61|81 62", "! ProtocolError A message begins inside another")]
    [InlineData("83 61", "! ProtocolError The opcode of a frame is reserved")]
    [InlineData("82 61 61 61 61 61 61 61 61 61", "! MessageTooBig The message is too large")]
    [InlineData("88", "Close None ")]
    public void Fragments_are_joined_and_mistakes_reported(string frames, string expected)
    {
        byte[] bytes = [.. frames.Split('|').SelectMany(static frame =>
        {
            byte[] all = Convert.FromHexString(frame.Replace(" ", "", StringComparison.Ordinal));
            return new byte[] { all[0], (byte)(all.Length - 1) }.Concat(all[1..]);
        })];
        for (int cut = 0; cut <= bytes.Length; cut++)
            Assert.Equal(expected, Read(ofClient: false, 8, bytes[..cut], bytes[cut..]));
    }

    [Theory]
    [InlineData(0)]
    [InlineData(125)]
    [InlineData(126)]
    [InlineData(65_535)]
    [InlineData(65_536)]
    public void A_head_alone_is_that_of_the_whole_frame(int length)
    {
        byte[] frame = new byte[WebSocketFrames.LengthOf(length, ofClient: false)];
        Span<byte> head = stackalloc byte[WebSocketFrames.MostHeadBytes];
        foreach (WebSocketPart part in (WebSocketPart[])[WebSocketPart.Text, WebSocketPart.Binary])
        {
            WebSocketFrames.Write(frame, part, new byte[length], ofClient: false);
            int written = WebSocketFrames.WriteHead(head, part, length);
            Assert.Equal(frame.Length - length, written);
            Assert.True(head[..written].SequenceEqual(frame.AsSpan(0, written)));
        }
    }

    [Fact]
    public void An_invalid_frame_is_not_written()
    {
        byte[] target = new byte[300];
        Assert.Throws<ArgumentException>(() => WebSocketFrames.Write(target, WebSocketPart.Ping, new byte[126],
            ofClient: false));
        Assert.Throws<ArgumentException>(() => WebSocketFrames.Write(target, WebSocketPart.Close, [3],
            ofClient: false));
        Assert.Throws<ArgumentException>(() => WebSocketFrames.Write(target, WebSocketPart.Close, [3, 0xED],
            ofClient: false));
        Assert.Throws<ArgumentException>(() => WebSocketFrames.Write(target, WebSocketPart.Text, new byte[300],
            ofClient: false));
        Assert.Throws<ArgumentOutOfRangeException>(() => WebSocketFrames.Write(target, WebSocketPart.Broken, default,
            ofClient: false));
        Assert.Throws<ArgumentOutOfRangeException>(() => WebSocketFrames.WriteHead(target, WebSocketPart.Ping, 0));
        Assert.Throws<ArgumentOutOfRangeException>(() => WebSocketFrames.WriteHead(target, WebSocketPart.Text, -1));
        Assert.Throws<ArgumentException>(() =>
            WebSocketFrames.WriteHead(target.AsSpan(0, WebSocketFrames.MostHeadBytes - 1), WebSocketPart.Text, 0));
        Assert.Throws<ArgumentOutOfRangeException>(() => new WebSocketMessageReader(ofClient: true, 0));
    }

    [Fact]
    public void A_key_has_its_answer_and_what_is_no_key_has_none()
    {
        byte[] accept = new byte[WebSocketFrames.AcceptLength];
        Assert.True(WebSocketFrames.TryAccept("dGhlIHNhbXBsZSBub25jZQ=="u8, accept));
        Assert.Equal("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", Encoding.ASCII.GetString(accept));
        Assert.False(WebSocketFrames.TryAccept("dGhlIHNhbXBsZSBub25jZQ="u8, accept));
        Assert.False(WebSocketFrames.TryAccept(""u8, accept));
    }

    private static string Read(bool ofClient, int limit, params byte[][] pieces)
    {
        WebSocketMessageReader reader = new(ofClient, limit);
        List<string> told = [];
        byte[] unread = [];
        foreach (byte[] piece in pieces)
        {
            unread = [.. unread, .. piece];
            int taken = 0;
            WebSocketPart part;
            do
            {
                part = reader.Read(unread.AsSpan(taken), out int count, out ReadOnlySpan<byte> payload);
                taken += count;
                if (part == WebSocketPart.Broken)
                    return string.Join(';', told.Append($"! {reader.Status} {reader.Reason}"));
                if (part == WebSocketPart.Close) told.Add($"Close {reader.Status} {reader.Reason}");
                else if (part != WebSocketPart.NeedMore) told.Add($"{part} {Encoding.UTF8.GetString(payload)}");
            }
            while (part != WebSocketPart.NeedMore);

            unread = unread[taken..];
        }

        return string.Join(';', told);
    }
}
