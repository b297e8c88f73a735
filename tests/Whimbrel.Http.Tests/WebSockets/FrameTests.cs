using System.Text;
using Whimbrel.Http.Parsing;
using Whimbrel.Tests;

namespace Whimbrel.Http.Tests.WebSockets;

// Each case is read whole, cut at every place, byte by byte, after and before a valid message, in both roles.
public sealed class FrameTests
{
    private const long Limit = 1000;
    private const int MostHeadBytes = 14;

    private static readonly int s_runs = Depth.Of(5_000_000, deep: 50_000_000);

    /// <summary>Frames as text, <c>FIN OPCODE payload</c> (see <see cref="Frames"/>), and the expected
    /// events.</summary>
    public static TheoryData<string, string> Cases() => new()
    {
        // data frames
        { "81 Hello", "Text Hello" },
        { "82 Hello", "Binary Hello" },
        { "81", "Text " },
        { "82", "Binary " },
        { "01 Hel|80 lo", "Text Hello" },
        { "02 Hel|80 lo", "Binary Hello" },
        { "01 a|00 b|00 c|80 d", "Text abcd" },
        { "01|00|80", "Text " },
        { "01|80 a", "Text a" },
        { "01 a|80", "Text a" },
        { "81 a|82 b|81 c", "Text a;Binary b;Text c" },
        // control frames, also between fragments
        { "89", "Ping " },
        { "89 Hi", "Ping Hi" },
        { "8A Hi", "Pong Hi" },
        { "89 125*x", "Ping 125*x" },
        { "8A 125*x", "Pong 125*x" },
        { "01 a|89 p|80 b", "Ping p;Text ab" },
        { "01 a|8A p|00 b|89|80 c", "Pong p;Ping ;Text abc" },
        { "89 1|89 2|89 3", "Ping 1;Ping 2;Ping 3" },
        { "01 a|88 \\03\\E8", "Close \\03\\E8" },
        // closes, and frames after them
        { "88", "Close " },
        { "88 \\03\\E8", "Close \\03\\E8" },
        { "88 \\03\\E8bye", "Close \\03\\E8bye" },
        { "88 \\03\\E8123*x", "Close \\03\\E8123*x" },
        { "88 \\0B\\B8", "Close \\0B\\B8" },
        { "88 \\13\\87", "Close \\13\\87" },
        { "88 \\03\\F6", "Close \\03\\F6" },
        { "88|81 late", "Close " },
        { "88|FF", "Close " },
        { "88 x", "! CloseTooShort" },
        { "88 \\03\\E7", "! BadCloseStatus" },
        { "88 \\00\\00", "! BadCloseStatus" },
        { "88 \\03\\EC", "! BadCloseStatus" }, // 1004
        { "88 \\03\\ED", "! BadCloseStatus" }, // 1005
        { "88 \\03\\EE", "! BadCloseStatus" }, // 1006
        { "88 \\03\\F7", "! BadCloseStatus" }, // 1015
        { "88 \\03\\F8", "! BadCloseStatus" }, // 1016
        { "88 \\07\\D0", "! BadCloseStatus" }, // 2000
        { "88 \\0B\\B7", "! BadCloseStatus" }, // 2999
        { "88 \\13\\88", "! BadCloseStatus" }, // 5000
        { "88 \\FF\\FF", "! BadCloseStatus" },
        { "88 \\03\\E8\\C3\\28", "! BadUtf8" },
        { "88 \\03\\E8\\E2\\82", "! BadUtf8" },
        { "88 \\03\\E8\\ED\\A0\\80", "! BadUtf8" },
        // bits and opcodes
        { "C1 a", "! ReservedBit" },
        { "A1 a", "! ReservedBit" },
        { "91 a", "! ReservedBit" },
        { "F1 a", "! ReservedBit" },
        { "C9 a", "! ReservedBit" },
        { "A9 a", "! ReservedBit" },
        { "98 a", "! ReservedBit" },
        { "01 a|C0 b", "! ReservedBit" },
        { "81 a|D1", "Text a;! ReservedBit" },
        { "83", "! ReservedOpcode" },
        { "84 a", "! ReservedOpcode" },
        { "85", "! ReservedOpcode" },
        { "86", "! ReservedOpcode" },
        { "87 a", "! ReservedOpcode" },
        { "03 a", "! ReservedOpcode" },
        { "8B", "! ReservedOpcode" },
        { "8C a", "! ReservedOpcode" },
        { "8D", "! ReservedOpcode" },
        { "8E", "! ReservedOpcode" },
        { "8F a", "! ReservedOpcode" },
        { "09 a", "! FragmentedControl" },
        { "0A", "! FragmentedControl" },
        { "08", "! FragmentedControl" },
        { "01 a|09 b|80 c", "! FragmentedControl" },
        { "89 126*x", "! LongControl" },
        { "8A 126*x", "! LongControl" },
        { "88 \\03\\E8124*x", "! LongControl" },
        { "89 70000*x", "! LongControl" },
        // the order of frames
        { "80 a", "! NothingToContinue" },
        { "00 a", "! NothingToContinue" },
        { "81 a|80 b", "Text a;! NothingToContinue" },
        { "01 a|80 b|00 c", "Text ab;! NothingToContinue" },
        { "01 a|81 b", "! MessageInMessage" },
        { "01 a|01 b|80 c", "! MessageInMessage" },
        { "02 a|81 b", "! MessageInMessage" },
        { "01|82 b", "! MessageInMessage" },
        // lengths
        { "82 125*x", "Binary 125*x" },
        { "82 126*x", "Binary 126*x" },
        { "82 127*x", "Binary 127*x" },
        { "82 128*x", "Binary 128*x" },
        { "82 1000*x", "Binary 1000*x" },
        { "82 1001*x", "! MessageTooLarge" },
        { "02 999*x|80 x", "Binary 1000*x" },
        { "02 999*x|80 xx", "! MessageTooLarge" },
        { "02 1000*x|00|00|80", "Binary 1000*x" },
        { "02 1000*x|00 x", "! MessageTooLarge" },
        { "82 1000*x|82 1000*x", "Binary 1000*x;Binary 1000*x" },
        { "81 a|82 70000*x", "Text a;! MessageTooLarge" },
        // text
        { "81 \\CE\\BA\\E1\\BD\\B9\\CF\\83", "Text \\CE\\BA\\E1\\BD\\B9\\CF\\83" },
        { "01 \\CE|80 \\BA", "Text \\CE\\BA" },
        { "01 \\F0\\9F|00 \\98|80 \\80", "Text \\F0\\9F\\98\\80" },
        { "01 \\F0|89 \\FF|80 \\9F\\98\\80", "Ping \\FF;Text \\F0\\9F\\98\\80" },
        { "82 \\FF\\FE\\80", "Binary \\FF\\FE\\80" },
        { "81 \\F4\\8F\\BF\\BF", "Text \\F4\\8F\\BF\\BF" },
        { "81 \\FF", "! BadUtf8" },
        { "81 \\80", "! BadUtf8" },
        { "81 \\C0\\80", "! BadUtf8" },
        { "81 \\E0\\80\\80", "! BadUtf8" },
        { "81 \\ED\\A0\\80", "! BadUtf8" },
        { "81 \\F4\\90\\80\\80", "! BadUtf8" },
        { "81 \\F5\\80\\80\\80", "! BadUtf8" },
        { "81 abc\\CE", "! BadUtf8" },
        { "01 abc\\CE|80", "! BadUtf8" },
        { "01 abc\\CE|80 a", "! BadUtf8" },
        { "01 abc\\F4|00 \\90|80 \\80\\80", "! BadUtf8" },
        { "81 \\CE|81 \\BA", "! BadUtf8" },
        { "81 ok|81 \\F8", "Text ok;! BadUtf8" },
    };

    [Theory, MemberData(nameof(Cases))]
    public void Each_case_is_judged_the_same_at_every_cut_and_by_both_ends(string frames, string expected)
    {
        List<string> events = Expand(expected);
        foreach (WebSocketRole role in Enum.GetValues<WebSocketRole>())
        {
            byte[] bytes = Frames(frames, role), good = Frames("81 good", role);
            int step = bytes.Length > 5000 ? 997 : 1;
            for (int cut = 0; cut <= bytes.Length; cut += step)
                Assert.Equal(events, Read(role, bytes[..cut], bytes[cut..]));
            Assert.Equal(events, Read(role, [.. bytes.Chunk(step)]));
            for (int cut = 0; cut <= good.Length + 6; cut++)
                Assert.Equal(["Text good", .. events], Read(role, [.. good, .. bytes], cut));
            bool isEnd = events[^1][0] is '!' or 'C';
            if (!events[^1].StartsWith('!'))
                Assert.Equal(isEnd ? events : [.. events, "Text good"],
                    Read(role, [.. bytes, .. good], bytes.Length / 2));
            else Assert.Equal(events, Read(role, [.. bytes, .. good], bytes.Length));
            Assert.Equal(events, PlainFrames.Read(bytes, role == WebSocketRole.Server, Limit, false));
        }
    }

    [Theory]
    [InlineData(true, "8105 48656C6C6F", "! NotMasked")]
    [InlineData(true, "8185 37FA213D 7F9F4D5158", "Text Hello")] // RFC 6455, 5.7
    [InlineData(false, "8185 37FA213D 7F9F4D5158", "! Masked")]
    [InlineData(false, "8105 48656C6C6F", "Text Hello")]
    [InlineData(false, "8100", "Text ")]
    [InlineData(true, "8100", "! NotMasked")]
    [InlineData(true, "8800", "! NotMasked")]
    [InlineData(false, "8980 00000000", "! Masked")]
    [InlineData(false, "827E 007D", "! LengthNotMinimal")]
    [InlineData(false, "827E 0000", "! LengthNotMinimal")]
    [InlineData(false, "827F 000000000000FFFF", "! LengthNotMinimal")]
    [InlineData(false, "827F 0000000000000001", "! LengthNotMinimal")]
    [InlineData(false, "827F 8000000000000000", "! LengthTooLarge")]
    [InlineData(false, "827F FFFFFFFFFFFFFFFF", "! LengthTooLarge")]
    [InlineData(false, "827F 7FFFFFFFFFFFFFFF", "! MessageTooLarge")]
    [InlineData(false, "827F 0000000000010000", "! MessageTooLarge")]
    [InlineData(false, "0201 61 007F 7FFFFFFFFFFFFFFF", "! MessageTooLarge")] // the sum would pass 2^63
    [InlineData(false, "897E 0005", "! LongControl")]
    [InlineData(false, "897F 0000000000000005", "! LongControl")]
    [InlineData(false, "88", "")]
    [InlineData(false, "8802 03", "")]
    [InlineData(false, "8101", "")]
    [InlineData(false, "0105 48656C", "")]
    public void Bytes_are_judged_as_the_RFC_says(bool isServer, string hex, string expected)
    {
        WebSocketRole role = isServer ? WebSocketRole.Server : WebSocketRole.Client;
        byte[] bytes = Convert.FromHexString(hex.Replace(" ", "", StringComparison.Ordinal));
        List<string> events = expected.Length == 0 ? [] : [expected];
        for (int cut = 0; cut <= bytes.Length; cut++) Assert.Equal(events, Read(role, bytes, cut));
        Assert.Equal(events, PlainFrames.Read(bytes, role == WebSocketRole.Server, Limit, false));
    }

    [Theory]
    [InlineData("C1 a", "Text* a")]
    [InlineData("C2 a", "Binary* a")]
    [InlineData("81 a", "Text a")]
    [InlineData("41 a|80 b", "Text* ab")]
    [InlineData("41 a|89 p|80 b|81 c", "Ping p;Text* ab;Text c")]
    [InlineData("C1 \\FF", "Text* \\FF")] // judged when the compression is off
    [InlineData("41 a|C0 b", "! ReservedBit")]
    [InlineData("C9 p", "! ReservedBit")]
    [InlineData("C8", "! ReservedBit")]
    [InlineData("E1 a", "! ReservedBit")]
    public void With_compression_agreed_on_its_bit_stands_on_the_first_frame_of_a_message(string frames,
        string expected)
    {
        foreach (WebSocketRole role in Enum.GetValues<WebSocketRole>())
        {
            byte[] bytes = Frames(frames, role);
            for (int cut = 0; cut <= bytes.Length; cut++)
            {
                FrameDriver driver = new(role, Limit, mayCompress: true);
                driver.Feed(bytes.AsSpan(0, cut));
                driver.Feed(bytes.AsSpan(cut));
                Assert.Equal(Expand(expected), driver.Events);
            }
        }
    }

    [Fact]
    public void Frames_without_a_payload_are_limited_in_number()
    {
        string empty = string.Concat(Enumerable.Repeat("|00", WebSocketReader.MostEmptyFrames));
        Assert.Equal(["Text ab"], Read(WebSocketRole.Client, Frames($"01 a{empty}|80 b", WebSocketRole.Client), 9));
        Assert.Equal(["! TooManyEmptyFrames"],
            Read(WebSocketRole.Client, Frames($"01 a{empty}|00|80 b", WebSocketRole.Client), 9));
        Assert.Equal(["Text a", "Text b"],
            Read(WebSocketRole.Client, Frames($"01 a{empty}|80|01 b{empty}|80", WebSocketRole.Client), 9));
    }

    [Fact]
    public void A_mistake_is_reported_at_the_first_byte_that_shows_it()
    {
        (string Hex, int Bytes)[] cases = [("83", 1), ("C1", 1), ("80", 1), ("09", 1), ("8180", 2), ("897E", 2),
            ("8801", 2), ("827E007D", 4), ("827E03E9", 4), ("827F80", 10), ("8105FF", 3), ("8105E080", 4),
            ("8105EDA0", 4)];
        foreach ((string hex, int bytes) in cases)
        {
            FrameDriver driver = new(WebSocketRole.Client, Limit);
            foreach (byte b in Convert.FromHexString(hex.PadRight(40, '0'))) driver.Feed([b]);
            Assert.NotEqual(WebSocketRule.None, driver.Rule);
            Assert.True(driver.FedBytes == bytes, $"{hex}: {driver.Rule} at {driver.FedBytes}");
        }
    }

    // Short frames only: long ones are in the cases above, and in the longest payloads here. Five million take about
    // ten seconds of one CPU.
    [Fact]
    public void It_agrees_with_a_plain_reader_about_any_frames()
    {
        byte[] firsts = [0x81, 0x82, 0x01, 0x02, 0x00, 0x80, 0x89, 0x8A, 0x88, 0xC1, 0x08, 0x83, 0x90];
        string[] texts = ["", "a", "\\F0\\9F", "\\98\\80", "\\03\\E8", "\\FF", "\\CE\\BA", "\\03\\E8ok", "125*x",
            "126*y", "200*z"];
        byte[][] payloads = [.. texts.Select(Payload)];
        const int Short = 8; // of these, the others are rare
        byte[] bytes = new byte[2000];
        FrameLog expected = new();
        foreach (int seed in Seeds.Some(2))
        {
            Random random = new(seed);
            int broken = 0;
            for (int run = 0; run < s_runs / 2; run++)
            {
                WebSocketRole role = (WebSocketRole)random.Next(2);
                int length = 0;
                for (int i = random.Next(1, 6); i > 0; i--)
                {
                    byte first = firsts[random.Next(random.Next(2) == 0 ? 7 : firsts.Length)];
                    length += WriteFrame(bytes.AsSpan(length), first,
                        payloads[random.Next(random.Next(4) == 0 ? payloads.Length : Short)], role,
                        (uint)random.Next());
                }

                for (int changes = random.Next(4) - 1; changes > 0; changes--)
                    bytes[random.Next(length)] = (byte)random.Next(256);
                bool mayCompress = random.Next(2) == 0;
                long limit = random.Next(2) == 0 ? 150 : long.MaxValue;
                ReadOnlySpan<byte> all = bytes.AsSpan(0, length);
                FrameDriver driver = new(role, limit, mayCompress);
                int cut = random.Next(length + 1);
                driver.Feed(all[..cut]);
                driver.Feed(all[cut..]);
                expected.Clear();
                PlainFrames.Read(all, role == WebSocketRole.Server, limit, mayCompress, expected);
                if (!expected.IsAs(driver.Log))
                    Assert.Fail($"seed {seed}, run {run}, cut {cut}, {role}, limit {limit}, {mayCompress}: "
                        + $"{Convert.ToHexString(all)}\n{string.Join(';', expected.ToList())}\n"
                        + $"{string.Join(';', driver.Events)}");
                if (driver.Rule != WebSocketRule.None) broken++;
            }

            Assert.InRange(broken, s_runs / 20, s_runs / 2 - s_runs / 20);
        }
    }

    [Fact]
    public void Each_rule_has_a_sentence_that_fits_into_a_close_frame_and_a_status_that_may_be_sent()
    {
        string[] texts = [.. Enum.GetValues<WebSocketRule>().Select(WebSocketRules.TextOf)];
        Assert.Equal(texts.Length, texts.Distinct().Count());
        Assert.All(texts, text => Assert.InRange(Encoding.UTF8.GetByteCount(text), 1, WebSocketClose.MostReasonBytes));
        Assert.All(Enum.GetValues<WebSocketRule>(),
            rule => Assert.True(WebSocketClose.MaySend((int)WebSocketRules.StatusOf(rule))));
    }

    [Fact]
    public void A_reason_that_is_too_long_is_cut_between_characters()
    {
        byte[] payload = new byte[WebSocketReader.MostControlBytes];
        Assert.Equal(125, WebSocketClose.Write(payload, WebSocketStatus.Normal, new string('x', 500)));
        int length = WebSocketClose.Write(payload, WebSocketStatus.Normal,
            string.Concat(Enumerable.Repeat("\U0001F600", 40)));
        Assert.Equal(2 + 120, length);
        Assert.Equal(WebSocketRule.None, WebSocketClose.Check(payload.AsSpan(0, length)));
        Assert.Equal(0, WebSocketClose.Write(payload, WebSocketStatus.None, "x"));
    }

    [Fact]
    public void A_written_frame_is_read_by_the_other_end_and_no_two_masks_are_the_same()
    {
        HashSet<uint> keys = [];
        foreach (int length in (int[])[0, 1, 125, 126, 127, 65535, 65536, 70000])
        {
            foreach (WebSocketRole role in Enum.GetValues<WebSocketRole>())
            {
                WebSocketWriter writer = new(role);
                byte[] payload = new byte[length];
                Random.Shared.NextBytes(payload);
                for (int i = 0; i < 100; i++)
                {
                    byte[] frame = new byte[writer.HeadLength(length) + length];
                    Assert.Equal(frame.Length, writer.WriteFrame(frame, WebSocketOpcode.Binary, payload));
                    FrameDriver driver =
                        new(role == WebSocketRole.Client ? WebSocketRole.Server : WebSocketRole.Client);
                    driver.Feed(frame);
                    Assert.Equal([$"Binary {Encoding.Latin1.GetString(payload)}"], driver.Events);
                    if (role == WebSocketRole.Client)
                        keys.Add(BitConverter.ToUInt32(frame.AsSpan(writer.HeadLength(length) - 4)));
                }
            }
        }

        Assert.InRange(keys.Count, 795, 800); // of 800; one pair of equal keys is expected in one of 13,000 runs
    }

    // ------------------------------------------------------------------ frames as text

    private static List<string> Read(WebSocketRole role, byte[] bytes, int cut) =>
        Read(role, bytes[..Math.Min(cut, bytes.Length)], bytes[Math.Min(cut, bytes.Length)..]);

    private static List<string> Read(WebSocketRole role, params ReadOnlySpan<byte[]> pieces)
    {
        FrameDriver driver = new(role, Limit);
        foreach (byte[] piece in pieces) driver.Feed(piece);
        return driver.Events;
    }

    private static List<string> Expand(string expected) => [.. expected.Split(';')
        .Select(e => e.IndexOf(' ', StringComparison.Ordinal) is > 0 and int space && e[0] != '!'
            ? $"{e[..space]} {Encoding.Latin1.GetString(Payload(e[(space + 1)..]))}" : e)];

    /// <summary>
    /// <c>01 abc|80 \FF</c>: the first byte in hexadecimal, the payload as text, with bytes as \XX and repetitions as
    /// 125*x at its end.
    /// </summary>
    internal static byte[] Frames(string text, WebSocketRole reader)
    {
        List<byte> bytes = [];
        uint key = 0x1234_5678;
        foreach (string frame in text.Split('|'))
        {
            byte[] payload = frame.Length > 3 ? Payload(frame[3..]) : [];
            byte[] written = new byte[MostHeadBytes + payload.Length];
            bytes.AddRange(written.AsSpan(0,
                WriteFrame(written, Convert.ToByte(frame[..2], 16), payload, reader, key += 0x9E37_79B9)));
        }

        return [.. bytes];
    }

    // Written byte by byte, without the code under test.
    private static int WriteFrame(Span<byte> to, byte first, ReadOnlySpan<byte> payload, WebSocketRole reader, uint key)
    {
        byte mask = reader == WebSocketRole.Server ? (byte)128 : (byte)0;
        int at = 0, length = payload.Length;
        to[at++] = first;
        to[at++] = (byte)(mask | (length < 126 ? length : length < 65536 ? 126 : 127));
        for (int shift = length < 126 ? -8 : length < 65536 ? 8 : 56; shift >= 0; shift -= 8)
            to[at++] = (byte)((long)length >> shift);
        for (int i = 0; i < 4 && mask != 0; i++) to[at++] = (byte)(key >> (8 * i));
        for (int i = 0; i < length; i++)
            to[at + i] = mask == 0 ? payload[i] : (byte)(payload[i] ^ (byte)(key >> (8 * (i & 3))));
        return at + length;
    }

    internal static byte[] Payload(string text)
    {
        List<byte> bytes = [];
        for (int i = 0; i < text.Length; i++)
        {
            if (text[i] == '\\')
            {
                bytes.Add(Convert.ToByte(text.Substring(i + 1, 2), 16));
                i += 2;
            }
            else if (text.IndexOf('*', i) is > 0 and int star && text[i..star].All(char.IsAsciiDigit))
            {
                bytes.AddRange(Enumerable.Repeat((byte)text[star + 1], int.Parse(text[i..star], null)));
                i = star + 1;
            }
            else
            {
                bytes.Add((byte)text[i]);
            }
        }

        return [.. bytes];
    }
}
