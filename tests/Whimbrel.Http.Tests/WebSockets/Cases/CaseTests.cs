using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http.Tests.WebSockets.Cases;

// Each case of the catalogue in both roles in virtual time: in its own pieces, byte by byte, and cut at every place.
public sealed class CaseTests
{
    private const int ShortBytes = 300;

    private static readonly WebSocketOptions _options = new() { MessageLimitBytes = 16 * 1024 * 1024 };

    public static TheoryData<string> Ids() => [.. Catalogue.All.Keys];

    public static TheoryData<string> PackedIds() => [.. PackedCase.All.Keys];

    [Fact]
    public void The_catalogue_of_cases_is_complete()
    {
        (string Section, int Count)[] sections = [("1", 16), ("2", 11), ("3", 7), ("4", 10), ("5", 20), ("6", 145),
            ("7", 37), ("9", 54), ("10", 1), ("12", 90), ("13", 126)];
        string[] ids = [.. Catalogue.All.Keys.Concat(PackedCase.All.Keys)
            .Where(static id => !id.Contains(" of ", StringComparison.Ordinal))];
        Assert.Equal(sections, sections.Select(
            s => (s.Section, ids.Count(id => id.StartsWith(s.Section + ".", StringComparison.Ordinal)))));
        Assert.Equal(517, ids.Length);
    }

    [Theory, MemberData(nameof(Ids))]
    public void Both_ends_do_what_the_RFC_says(string id)
    {
        Case of = Catalogue.All[id];
        foreach (WebSocketRole role in Enum.GetValues<WebSocketRole>())
        {
            List<byte[]> writes = of.Writes(role);
            Play(of, role, "as it is chopped", writes);
            byte[] all = [.. writes.SelectMany(static w => w)];
            if (of.Enough > 0) Play(of, role, "the end early", [all[..of.EnoughBytes(role)]]);
            if (all.Length > ShortBytes) continue;
            Play(of, role, "byte by byte", [.. all.Chunk(1)]);
            for (int cut = 1; cut < all.Length; cut++) Play(of, role, $"cut at {cut}", [all[..cut], all[cut..]]);
            Play(of, role, "with the handshake", [], all);
        }
    }

    private static void Play(Case of, WebSocketRole role, string how, List<byte[]> writes, byte[]? behind = null)
    {
        using CaseLink link = new(role, _options, behind: behind);
        foreach (byte[] write in writes) link.Send(write);
        string told = $"{of.Id}, {role}, {how}";
        List<string> events = Case.Events(link.Received, role);
        if (!events.SequenceEqual(of.Expected))
            Assert.Fail($"{told}: expected {Short(of.Expected)}, got {Short(events)}; {link.Peer.CloseReason}");
        Assert.True(link.Peer.IsSessionFinished, $"{told}: the connection does not end");
        Assert.True((int)link.Session.CloseStatus == of.End, $"{told}: {link.Session.CloseStatus}");
        Assert.True(link.Session.Mistakes.Count == 0, $"{told}: {string.Join(' ', link.Session.Mistakes)}");
        Assert.Equal(of.Back.Count(static b => b[0] != 'P'), link.Session.Messages);
    }

    private static string Short(List<string> events) =>
        string.Join(" | ", events.Take(12).Select(static e => e.Length > 60 ? $"{e[..60]}... ({e.Length})" : e));

    [Theory, MemberData(nameof(PackedIds))]
    public void Compressed_messages_come_back_within_what_was_agreed_on(string id)
    {
        PackedCase of = PackedCase.All[id];
        foreach (WebSocketRole role in Enum.GetValues<WebSocketRole>())
        {
            using CaseLink link = new(role, PackedDialogue.Options, PackedDialogue.Extensions(of, role));
            PackedDialogue dialogue = new(of, role, link.Head);
            int seen = 0;
            foreach (byte[] message in of.Messages())
            {
                foreach (byte[] write in dialogue.Ask(message)) link.Send(write);
                byte[] received = link.Received;
                dialogue.Check(message, received[seen..]);
                seen = received.Length;
            }

            link.Send(dialogue.Close);
            Assert.Equal(["Close 1000"], Case.Events(link.Received[seen..], role));
            Assert.Empty(link.Session.Mistakes);
        }
    }
}
