using System.Globalization;
using System.Text;

namespace Whimbrel.Http.Tests.WebSockets.Cases;

/// <summary> The cases of sections 1 to 10, numbered as in the public catalogue of the Autobahn test suite, and written
/// from RFC 6455. Where the catalogue permits two behaviours, only the strict one is accepted: messages before a
/// violation are answered, nothing after it. </summary>
internal static class Catalogue
{
    private const int Kilo = 1024;
    private const int Octets = 1;

    /// <summary>Section 9 has messages of up to 16 MiB. A usual run uses an eighth of each, so that all cases remain
    /// different.</summary>
    private static int Scale => Depth.IsDeep ? 1 : 8;

    internal static IReadOnlyDictionary<string, Case> All { get; } = Sections().ToDictionary(static c => c.Id);

    private static IEnumerable<Case> Sections() =>
        [.. Framing(), .. Pings(), .. ReservedBits(), .. Opcodes(), .. Fragments(), .. Texts(), .. Closes(), .. Sizes(),
            .. Others()];

    // ------------------------------------------------------------------ how cases are written

    /// <summary>Frames as <see cref="FrameTests.Frames"/> reads them: <c>01 abc|80 \FF</c>.</summary>
    private static Case Make(string id, string frames, string back, int chop = Case.OneWrite, int end = 1000,
        int enough = 0) =>
        new(id, [.. frames.Split('|').Select(static f => new CaseFrame(Convert.ToByte(f[..2], 16),
            f.Length > 3 ? FrameTests.Payload(f[3..]) : []))],
            back.Length == 0 ? [] : [.. back.Split('|').Select(static b => Event(b))])
        {
            Chop = chop,
            End = end,
            Enough = enough
        };

    private static string Event(string text)
    {
        int space = text.IndexOf(' ', StringComparison.Ordinal);
        return $"{text[..space]} {Encoding.Latin1.GetString(FrameTests.Payload(text[(space + 1)..]))}";
    }

    private static Case Broken(string id, string frames, string back = "", int chop = Case.OneWrite, int end = 1002,
        int enough = 0) => Make(id, frames, back, chop, end, enough);

    /// <summary>Text that does not resemble itself at an offset of a few bytes.</summary>
    private static byte[] Letters(int length)
    {
        byte[] bytes = new byte[length];
        for (int i = 0; i < length; i++) bytes[i] = (byte)(32 + (i * 7 + i / 95 * 11 + i / 9025) % 95);
        return bytes;
    }

    private static Case Echo(string id, bool isText, byte[] payload, int fragment = int.MaxValue,
        int chop = Case.OneWrite)
    {
        List<CaseFrame> frames = [];
        for (int at = 0; at == 0 || at < payload.Length; at += fragment)
        {
            bool isLast = payload.Length - at <= fragment;
            byte first = (byte)((isLast ? 0x80 : 0) | (at > 0 ? 0 : isText ? 1 : 2));
            frames.Add(new CaseFrame(first, isLast ? payload[at..] : payload[at..(at + fragment)]));
            if (isLast) break;
        }

        return new Case(id, frames, [$"{(isText ? "Text" : "Binary")} {Encoding.Latin1.GetString(payload)}"])
        {
            Chop = chop
        };
    }

    private static string Id(string section, int number) =>
        string.Create(CultureInfo.InvariantCulture, $"{section}.{number}");

    // ------------------------------------------------------------------ 1 to 5

    private static IEnumerable<Case> Framing()
    {
        int[] sizes = [0, 125, 126, 127, 128, 65535, 65536, 65536];
        for (int i = 0; i < sizes.Length; i++)
        {
            int chop = i == 7 ? 997 : Case.OneWrite;
            yield return Echo(Id("1.1", i + 1), true, Letters(sizes[i]), chop: chop);
            yield return Echo(Id("1.2", i + 1), false, [.. Letters(sizes[i]).Select(static b => (byte)(b ^ 0xFE))],
                chop: chop);
        }
    }

    private static IEnumerable<Case> Pings()
    {
        string ten = string.Join('|', Enumerable.Range(0, 10).Select(static i => $"89 payload-{i}"));
        string tenBack = string.Join('|', Enumerable.Range(0, 10).Select(static i => $"Pong payload-{i}"));
        yield return Make("2.1", "89", "Pong ");
        yield return Make("2.2", "89 Hello, world!", "Pong Hello, world!");
        yield return Make("2.3", "89 \\00\\FF\\FE\\FD\\FC\\FB\\00\\FF", "Pong \\00\\FF\\FE\\FD\\FC\\FB\\00\\FF");
        yield return Make("2.4", "89 125*\u00FE", "Pong 125*\u00FE");
        yield return Broken("2.5", "89 126*\u00FE");
        yield return Make("2.6", "89 125*\u00FE", "Pong 125*\u00FE", Octets);
        yield return Make("2.7", "8A", "");
        yield return Make("2.8", "8A unasked", "");
        yield return Make("2.9", "8A unasked|89 asked", "Pong asked");
        yield return Make("2.10", ten, tenBack);
        yield return Make("2.11", ten, tenBack, Octets);
    }

    private static IEnumerable<Case> ReservedBits()
    {
        yield return Broken("3.1", "C1 Hello");
        yield return Broken("3.2", "81 Hello|A1 Hello|89", "Text Hello");
        yield return Broken("3.3", "81 Hello|B1 Hello|89", "Text Hello", Case.ByFrames);
        yield return Broken("3.4", "81 Hello|C1 Hello|89", "Text Hello", Octets);
        yield return Broken("3.5", "D2 \\00\\FF\\FE");
        yield return Broken("3.6", "E9 Hello");
        yield return Broken("3.7", "F8 \\03\\E8");
    }

    private static IEnumerable<Case> Opcodes()
    {
        foreach ((string section, int first) in new[] { ("4.1", 3), ("4.2", 11) })
        {
            yield return Broken(Id(section, 1), $"8{first:X}");
            yield return Broken(Id(section, 2), $"8{first + 1:X} payload");
            yield return Broken(Id(section, 3), $"81 Hello|8{first + 2:X}|89", "Text Hello");
            yield return Broken(Id(section, 4), $"81 Hello|8{first + 3:X} payload|89", "Text Hello");
            yield return Broken(Id(section, 5), $"81 Hello|8{first + 4:X} payload|89", "Text Hello", Octets);
        }
    }

    private static IEnumerable<Case> Fragments()
    {
        yield return Broken("5.1", "09 one|80 two");
        yield return Broken("5.2", "0A one|80 two");
        yield return Make("5.3", "01 one|80 two", "Text onetwo");
        yield return Make("5.4", "01 one|80 two", "Text onetwo", Case.ByFrames);
        yield return Make("5.5", "01 one|80 two", "Text onetwo", Octets);
        yield return Make("5.6", "01 one|89 ping|80 two", "Pong ping|Text onetwo");
        yield return Make("5.7", "01 one|89 ping|80 two", "Pong ping|Text onetwo", Case.ByFrames);
        yield return Make("5.8", "01 one|89 ping|80 two", "Pong ping|Text onetwo", Octets);
        int[] chops = [Case.OneWrite, Case.ByFrames, Octets];
        for (int i = 0; i < 3; i++)
        {
            yield return Broken(Id("5", 9 + i), "80 nothing|81 Hello", chop: chops[i]);
            yield return Broken(Id("5", 12 + i), "00 nothing|81 Hello", chop: chops[i]);
        }

        yield return Broken("5.15", "01 one|80 two|00 three|81 four", "Text onetwo");
        yield return Broken("5.16", "00 one|81 Hello|00 one|81 Hello");
        yield return Broken("5.17", "80 one|81 Hello|80 one|81 Hello");
        yield return Broken("5.18", "01 one|81 two");
        const string Five = "01 one|00 two|89 first|00 three|00 four|89 second|80 five",
            FiveBack = "Pong first|Pong second|Text onetwothreefourfive";
        yield return Make("5.19", Five, FiveBack);
        yield return Make("5.20", Five, FiveBack, Case.ByFrames);
    }

    // ------------------------------------------------------------------ 6: UTF-8

    // five characters of two and three bytes
    private const string Kosme = "\\CE\\BA\\E1\\BD\\B9\\CF\\83\\CE\\BC\\CE\\B5";
    private const string Surrogate = "\\ED\\A0\\80";

    private static IEnumerable<Case> Texts()
    {
        const string Words = "Hello-\\C2\\B5@\\C3\\9F\\C3\\B6\\C3\\A4\\C3\\BC\\C3\\A0\\C3\\A1-UTF-8!!";
        yield return Make("6.1.1", "81", "Text ");
        yield return Make("6.1.2", "01|00|80", "Text ");
        yield return Make("6.1.3", "01|00 middle|80", "Text middle");
        yield return Make("6.2.1", $"81 {Words}", $"Text {Words}");
        yield return Make("6.2.2", $"01 {Words[..13]}|80 {Words[13..]}", $"Text {Words}");
        yield return Single("6.2.3", Words, true);
        yield return Single("6.2.4", Kosme, true);
        yield return Broken("6.3.1", $"81 {Kosme}{Surrogate}edited", end: 1007);
        yield return Single("6.3.2", $"{Kosme}{Surrogate}edited", false);
        // Detected as soon as possible: eleven bytes are valid, and the second byte after them cannot be.
        yield return Broken("6.4.1", $"01 {Kosme}|00 \\F4\\90\\80\\80|80 edited", chop: Case.ByFrames, end: 1007,
            enough: 13);
        yield return Broken("6.4.2", $"01 {Kosme}\\F4|00 \\90|80 \\80\\80edited", chop: Case.ByFrames, end: 1007,
            enough: 13);
        yield return Broken("6.4.3", $"81 {Kosme}\\F4\\90\\80\\80edited", chop: Octets, end: 1007, enough: 13);
        yield return Broken("6.4.4", $"81 {Kosme}\\F4\\90\\80\\80edited", chop: Octets, end: 1007, enough: 13);
        yield return Text("6.5.1", Kosme, true);
        yield return Text("6.5.2", "\\E2\\82\\AC", true);
        yield return Text("6.5.3", "\\F0\\90\\8D\\88", true);
        yield return Text("6.5.4", "a\\C3\\A4\\E2\\82\\AC\\F0\\9F\\98\\80z", true);
        yield return Text("6.5.5", Kosme + Kosme, true);
        foreach (Case each in Series("6.6",
            [.. Enumerable.Range(1, 11).Select(static n => Kosme[..(3 * n)])], [2, 5, 7, 9, 11]))
            yield return each;
        foreach (Case each in Valid("6.7", "\\00", "\\C2\\80", "\\E0\\A0\\80", "\\F0\\90\\80\\80")) yield return each;
        foreach (Case each in Invalid("6.8", "\\F8\\88\\80\\80\\80", "\\FC\\84\\80\\80\\80\\80")) yield return each;
        foreach (Case each in Valid("6.9", "\\7F", "\\DF\\BF", "\\EF\\BF\\BF", "\\F4\\8F\\BF\\BF")) yield return each;
        foreach (Case each in Invalid("6.10", "\\F7\\BF\\BF\\BF", "\\FB\\BF\\BF\\BF\\BF", "\\FD\\BF\\BF\\BF\\BF\\BF"))
            yield return each;
        foreach (Case each in Series("6.11",
            ["\\ED\\9F\\BF", "\\EE\\80\\80", "\\EF\\BF\\BD", "\\F4\\8F\\BF\\BF", "\\F4\\90\\80\\80"], [1, 2, 3, 4]))
            yield return each;
        foreach (Case each in Invalid("6.12", ["\\80", "\\BF", .. Enumerable.Range(2, 5)
            .Select(static n => string.Concat(Enumerable.Range(0, n).Select(static i => i % 2 == 0 ? "\\80" : "\\BF"))),
            Bytes(0x80, 0xBF, "")]))
            yield return each;
        foreach (Case each in Invalid("6.13", Bytes(0xC0, 0xDF, " "), Bytes(0xE0, 0xEF, " "),
            Bytes(0xF0, 0xF7, " "), Bytes(0xF8, 0xFB, " "), Bytes(0xFC, 0xFD, " ")))
            yield return each;
        string[] cut = ["\\C0", "\\E0\\80", "\\F0\\80\\80", "\\F8\\80\\80\\80", "\\FC\\80\\80\\80\\80", "\\DF",
            "\\EF\\BF", "\\F7\\BF\\BF", "\\FB\\BF\\BF\\BF", "\\FD\\BF\\BF\\BF\\BF"];
        foreach (Case each in Invalid("6.14", cut)) yield return each;
        foreach (Case each in Invalid("6.15", string.Concat(cut))) yield return each;
        foreach (Case each in Invalid("6.16", "\\FE", "\\FF", "\\FE\\FE\\FF\\FF")) yield return each;
        foreach (Case each in Invalid("6.17", "\\C0\\AF", "\\E0\\80\\AF",
            "\\F0\\80\\80\\AF", "\\F8\\80\\80\\80\\AF", "\\FC\\80\\80\\80\\80\\AF"))
            yield return each;
        foreach (Case each in Invalid("6.18", "\\C1\\BF", "\\E0\\9F\\BF",
            "\\F0\\8F\\BF\\BF", "\\F8\\87\\BF\\BF\\BF", "\\FC\\83\\BF\\BF\\BF\\BF"))
            yield return each;
        foreach (Case each in Invalid("6.19", "\\C0\\80", "\\E0\\80\\80",
            "\\F0\\80\\80\\80", "\\F8\\80\\80\\80\\80", "\\FC\\80\\80\\80\\80\\80"))
            yield return each;
        string[] halves = ["\\ED\\A0\\80", "\\ED\\AD\\BF", "\\ED\\AE\\80", "\\ED\\AF\\BF", "\\ED\\B0\\80",
            "\\ED\\BE\\80", "\\ED\\BF\\BF"];
        foreach (Case each in Invalid("6.20", halves)) yield return each;
        foreach (Case each in Invalid("6.21", [.. halves[..4].SelectMany(h => new[] { h + halves[4], h + halves[6] })]))
            yield return each;
        foreach (Case each in Valid("6.22", [.. Enumerable.Range(0, 17).SelectMany(
            static plane => new[] { Character(plane * 0x10000 + 0xFFFE), Character(plane * 0x10000 + 0xFFFF) })]))
            yield return each;
        foreach (Case each in Valid("6.23", [.. Enumerable.Range(0xFFF9, 7).Select(Character)])) yield return each;
    }

    private static Case Text(string id, string bytes, bool isValid) =>
        isValid ? Make(id, $"81 {bytes}", $"Text {bytes}") : Broken(id, $"81 {bytes}", end: 1007);

    // Each byte in a separate frame.
    private static Case Single(string id, string text, bool isValid)
    {
        byte[] bytes = FrameTests.Payload(text);
        Case whole = Echo(id, true, bytes, fragment: 1);
        return isValid ? whole : whole with { Back = [], End = 1007 };
    }

    private static IEnumerable<Case> Series(string section, string[] texts, int[] valid) =>
        texts.Select((t, i) => Text(Id(section, i + 1), t, valid.Contains(i + 1)));

    private static IEnumerable<Case> Valid(string section, params string[] texts) =>
        Series(section, texts, [.. Enumerable.Range(1, texts.Length)]);

    private static IEnumerable<Case> Invalid(string section, params string[] texts) => Series(section, texts, []);

    private static string Bytes(int first, int last, string behindEach) =>
        string.Concat(Enumerable.Range(first, last - first + 1).Select(b => $"\\{b:X2}{behindEach}"));

    // Surrogates have no UTF-8 form; all other code points have, assigned or not.
    private static string Character(int scalar) =>
        string.Concat(Encoding.UTF8.GetBytes(char.ConvertFromUtf32(scalar)).Select(static b => $"\\{b:X2}"));

    // ------------------------------------------------------------------ 7: closes

    private static IEnumerable<Case> Closes()
    {
        yield return Make("7.1.1", "81 Hello|88 \\03\\E8", "Text Hello");
        yield return Make("7.1.2", "88 \\03\\E8|88 \\03\\E8", "");
        yield return Make("7.1.3", "88 \\03\\E8|89 ping", "");
        yield return Make("7.1.4", "88 \\03\\E8|81 Hello", "");
        yield return Make("7.1.5", "01 one|88 \\03\\E8|80 two", "");
        yield return Echo("7.1.6", true, Letters(256 * Kilo)) with
        {
            Sent = [new CaseFrame(0x81, Letters(256 * Kilo)),
                new CaseFrame(0x88, [0x03, 0xE8]), new CaseFrame(0x89, [])]
        };
        yield return Make("7.3.1", "88", "", end: 1005);
        yield return Broken("7.3.2", "88 a");
        yield return Make("7.3.3", "88 \\03\\E8", "");
        yield return Make("7.3.4", "88 \\03\\E8Going", "");
        yield return Make("7.3.5", "88 \\03\\E8123*a", "");
        yield return Broken("7.3.6", "88 \\03\\E8124*a");
        yield return Broken("7.5.1", $"88 \\03\\E8{Kosme}{Surrogate}edited", end: 1007);
        int[] valid = [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999];
        int[] invalid = [0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999];
        for (int i = 0; i < valid.Length; i++)
            yield return Make(Id("7.7", i + 1), $"88 {Status(valid[i])}", "", end: valid[i]);
        for (int i = 0; i < invalid.Length; i++) yield return Broken(Id("7.9", i + 1), $"88 {Status(invalid[i])}");
        // The RFC defines no meaning for these, and a status of five digits does not fit into 16 bits: the lower half
        // is sent.
        yield return Broken("7.13.1", $"88 {Status(5000)}");
        yield return Broken("7.13.2", $"88 {Status(65535)}");
        yield return Broken("7.9 of TLS", $"88 {Status(1015)}");
        foreach (int status in new[] { 1012, 1013, 1014 })
            yield return Make($"7.7 of {status}", $"88 {Status(status)}", "", end: status);
    }

    private static string Status(int status) => $"\\{status >> 8:X2}\\{status & 255:X2}";

    // ------------------------------------------------------------------ 9: sizes, 10: others

    private static IEnumerable<Case> Sizes()
    {
        int[] sizes = [64, 256, Kilo, 4 * Kilo, 8 * Kilo, 16 * Kilo];
        int[] fragments = [64, 256, Kilo, 4 * Kilo, 16 * Kilo, 64 * Kilo, 256 * Kilo, Kilo * Kilo, 4 * Kilo * Kilo];
        foreach (bool isText in new[] { true, false })
        {
            int kind = isText ? 0 : 1;
            for (int i = 0; i < sizes.Length; i++)
                yield return Echo(Id($"9.{1 + kind}", i + 1), isText, Letters(sizes[i] * Kilo / Scale));
            for (int i = 0; i < fragments.Length; i++)
                yield return Echo(Id($"9.{3 + kind}", i + 1), isText, Letters(4 * Kilo * Kilo / Scale),
                    Math.Max(64, fragments[i] / Scale));
            for (int i = 0; i < 6; i++)
            {
                yield return Echo(Id($"9.{5 + kind}", i + 1), isText, Letters(Kilo * Kilo / Scale), chop: 64 << i);
                int size = i == 0 ? 0 : 4 << (2 * i);
                byte[] payload = Letters(size);
                string back = $"{(isText ? "Text" : "Binary")} {Encoding.Latin1.GetString(payload)}";
                int count = 1000 / Scale;
                yield return new Case(Id($"9.{7 + kind}", i + 1),
                    [.. Enumerable.Repeat(new CaseFrame((byte)(isText ? 0x81 : 0x82), payload), count)],
                    [.. Enumerable.Repeat(back, count)])
                {
                    Chop = Case.ByFrames
                };
            }
        }
    }

    private static IEnumerable<Case> Others()
    {
        yield return Echo("10.1.1", true, Letters(64 * Kilo), fragment: 1300);
    }
}
