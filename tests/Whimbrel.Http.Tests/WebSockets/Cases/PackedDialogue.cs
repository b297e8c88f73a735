using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http.Tests.WebSockets.Cases;

/// <summary>One run of a <see cref="PackedCase"/>: the peer uses the reference code, and checks that our end keeps to
/// the negotiated parameters.</summary>
internal sealed class PackedDialogue
{
    private readonly PackedCase _case;
    private readonly WebSocketRole _role;
    private readonly PlainDeflate? _deflate;
    private readonly PlainInflate? _inflate;
    private readonly bool _mustPack;
    private uint _key = 1;

    internal PackedDialogue(PackedCase of, WebSocketRole role, string head)
    {
        _case = of;
        _role = role;
        PackedTerms agreed = of.Terms[0];
        string field = Opening.Field(head, "Sec-WebSocket-Extensions");
        if (role == WebSocketRole.Server)
        {
            // zlib cannot produce a window of 256 bytes: an offer that requires it is ignored.
            PackedTerms[] taken = [.. of.Terms.Where(static t => t.Bits != 8).Take(1)];
            string expected = taken.Length == 0
                ? ""
                : $"permessage-deflate{(taken[0].Forgets ? "; server_no_context_takeover" : "")}"
                    + $"{(taken[0].Bits is > 0 and < 15 ? $"; server_max_window_bits={taken[0].Bits}" : "")}";
            Assert.Equal(expected, field);
            if (taken.Length == 0) return;
            agreed = taken[0];
        }
        else
        {
            Assert.Equal("permessage-deflate; client_max_window_bits", field);
        }

        // A client that must use 256 bytes sends its messages uncompressed.
        _mustPack = agreed.Bits != 8;
        _deflate = new PlainDeflate(15, forgets: false);
        _inflate = new PlainInflate(agreed.Bits == 0 ? 15 : agreed.Bits, agreed.Forgets);
    }

    internal static WebSocketOptions Options { get; } = new()
    {
        Deflate = new WebSocketDeflate { Forgets = false, PeerForgets = false, WindowBits = 15, LeastBytes = 0 }
    };

    internal static string Extensions(PackedCase of, WebSocketRole role) =>
        role == WebSocketRole.Server ? string.Join(", ", of.Terms.Select(static t => t.Offer)) : of.Terms[0].Answer;

    internal byte[] Close => new CaseFrame(0x88, [0x03, 0xE8]).Bytes(_role, _key++);

    /// <summary>Frames of a message.</summary>
    internal IEnumerable<byte[]> Ask(byte[] message)
    {
        byte[] payload = _deflate?.Pack(message) ?? message;
        int size = _case.Fragment == 0 ? payload.Length : _case.Fragment;
        for (int at = 0; at < payload.Length; at += size)
        {
            bool isLast = at + size >= payload.Length;
            int first = (isLast ? 0x80 : 0) | (at > 0 ? 0 : (_deflate is null ? 0 : 0x40) | (_case.IsText ? 1 : 2));
            yield return new CaseFrame((byte)first, isLast ? payload[at..] : payload[at..(at + size)]).Bytes(_role,
                _key += 0x9E37_79B9);
        }
    }

    /// <summary>Checks that the message was echoed, compressed if it had to be.</summary>
    internal void Check(byte[] message, byte[] received) =>
        Check(message, Assert.Single(PlainFrames.Read(received, _role == WebSocketRole.Client, long.MaxValue,
            _deflate is not null)));

    /// <summary>Checks that all messages were echoed, followed by the close frame.</summary>
    internal void CheckAll(List<byte[]> messages, byte[] received)
    {
        List<string> answers = PlainFrames.Read(received, _role == WebSocketRole.Client, long.MaxValue,
            _deflate is not null);
        Assert.Equal(messages.Count + 1, answers.Count);
        for (int i = 0; i < messages.Count; i++) Check(messages[i], answers[i]);
        Assert.Equal("Close \x03\xE8", answers[^1]);
    }

    private void Check(byte[] message, string answer)
    {
        string kind = (_case.IsText ? "Text" : "Binary") + (_deflate is not null && _mustPack ? "* " : " ");
        Assert.StartsWith(kind, answer, StringComparison.Ordinal);
        byte[] payload = Encoding.Latin1.GetBytes(answer[kind.Length..]);
        Assert.True(message.AsSpan()
            .SequenceEqual(kind.Contains('*', StringComparison.Ordinal) ? _inflate!.Unpack(payload) : payload),
            $"{_case.Id}, {_role}: it is another message");
    }
}
