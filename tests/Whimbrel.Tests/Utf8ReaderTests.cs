using System.Text;

namespace Whimbrel.Tests;

// Text from bytes in pieces, split at every position.
public sealed class Utf8ReaderTests
{
    private const string Text = "a\nGrüße\r\n\n日本語\n🐦🐦\r\nend";

    private static readonly byte[] _bytes = Encoding.UTF8.GetBytes(Text);

    [Fact]
    public void Lines_are_the_same_wherever_the_bytes_are_cut()
    {
        for (int first = 0; first <= _bytes.Length; first++)
        {
            for (int second = first; second <= _bytes.Length; second++)
            {
                (List<string> lines, byte[] rest) = Feed(static (ref Utf8Reader reader, List<string> got) =>
                {
                    while (reader.TryReadLine(out string? line)) got.Add(line);
                }, first, second);
                Assert.Equal(["a", "Grüße", "", "日本語", "🐦🐦"], lines);
                Assert.Equal("end"u8.ToArray(), rest);
            }
        }
    }

    [Fact]
    public void Characters_are_whole_wherever_the_bytes_are_cut()
    {
        for (int first = 0; first <= _bytes.Length; first++)
        {
            for (int second = first; second <= _bytes.Length; second++)
            {
                (List<string> pieces, byte[] rest) =
                    Feed(static (ref Utf8Reader reader, List<string> got) => got.Add(reader.ReadText()), first, second);
                Assert.Equal(Text, string.Concat(pieces));
                Assert.Empty(rest);
            }
        }
    }

    [Fact]
    public void Byte_by_byte_no_piece_has_a_broken_character()
    {
        List<byte> unread = [];
        StringBuilder all = new();
        foreach (byte b in _bytes)
        {
            unread.Add(b);
            Utf8Reader reader = new(unread.ToArray());
            string piece = reader.ReadText();
            Assert.DoesNotContain('\uFFFD', piece);
            Assert.True(unread.Count - reader.Taken <= 3);
            unread.RemoveRange(0, reader.Taken);
            all.Append(piece);
        }

        Assert.Equal(Text, all.ToString());
    }

    [Fact]
    public void Bytes_that_are_no_text_are_replaced_and_do_not_stop_it()
    {
        byte[] odd = [(byte)'a', 0xFF, (byte)'b', 0xC3, (byte)'c', 0x80, (byte)'\n', 0xE2, 0x82];
        Utf8Reader lines = new(odd);
        Assert.True(lines.TryReadLine(out string? line));
        Assert.Equal("a\uFFFDb\uFFFDc\uFFFD", line);
        Assert.False(lines.TryReadLine(out line));
        Assert.Null(line);
        Assert.Equal(2, lines.Rest.Length);
        Utf8Reader text = new(odd);
        Assert.Equal("a\uFFFDb\uFFFDc\uFFFD\n", text.ReadText());
        Assert.Equal(7, text.Taken);
        Assert.Equal("", text.ReadText());
    }

    [Fact]
    public void An_empty_input_gives_an_empty_text()
    {
        Utf8Reader reader = new([]);
        Assert.Equal("", reader.ReadText());
        Assert.False(reader.TryReadLine(out _));
        Assert.Equal(0, reader.Taken);
    }

    private delegate void Read(ref Utf8Reader reader, List<string> got);

    // As a connection does: passes unconsumed bytes, followed by new ones.
    private static (List<string> Got, byte[] Left) Feed(Read read, int first, int second)
    {
        List<string> got = [];
        byte[] rest = [];
        foreach (Range piece in new[] { ..first, first..second, second.. })
        {
            byte[] unread = [.. rest, .. _bytes[piece]];
            Utf8Reader reader = new(unread);
            read(ref reader, got);
            rest = unread[reader.Taken..];
        }

        return (got, rest);
    }
}
