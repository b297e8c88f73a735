using System.Text;
using Whimbrel.Http.Parsing;
using Whimbrel.Tests;

namespace Whimbrel.Http.Tests.WebSockets;

// Compared with an automaton of Unicode table 3-7 that reads one byte at a time.
public sealed class Utf8CheckTests
{
    private static readonly byte[] _telling = [0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2,
        0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xF8, 0xFF];

    /// <summary>Number of bytes before the first invalid one, or -1; and whether a character is incomplete.</summary>
    private static int FirstWrong(ReadOnlySpan<byte> text, out bool isOpen)
    {
        int left = 0, low = 0x80, high = 0xBF;
        for (int i = 0; i < text.Length; i++)
        {
            byte b = text[i];
            isOpen = false;
            if (left > 0)
            {
                if (b < low || b > high) return i;
                (low, high) = (0x80, 0xBF);
                left--;
                continue;
            }

            if (b < 0x80) continue;
            if (b is < 0xC2 or > 0xF4) return i;
            left = b < 0xE0 ? 1 : b < 0xF0 ? 2 : 3;
            low = b == 0xE0 ? 0xA0 : b == 0xF0 ? 0x90 : 0x80;
            high = b == 0xED ? 0x9F : b == 0xF4 ? 0x8F : 0xBF;
        }

        isOpen = left > 0;
        return -1;
    }

    [Fact]
    public void All_sequences_of_significant_bytes_are_judged_at_the_first_wrong_one()
    {
        byte[] text = new byte[4];
        int count = _telling.Length;
        for (int number = 0; number < count * count * count * count; number++)
        {
            for (int i = 0, rest = number; i < 4; i++, rest /= count) text[i] = _telling[rest % count];
            int wrong = FirstWrong(text, out bool isOpen);
            for (int cut = 0; cut <= 4; cut++)
            {
                Utf8Check check = default;
                bool first = check.Add(text.AsSpan(0, cut));
                Assert.True(first == (wrong < 0 || wrong >= cut), $"{Convert.ToHexString(text)} cut at {cut}");
                if (!first) continue;
                Assert.True(check.Add(text.AsSpan(cut)) == wrong < 0, $"{Convert.ToHexString(text)} after {cut}");
                if (wrong < 0) Assert.Equal(!isOpen, check.IsComplete);
            }
        }
    }

    [Fact]
    public void Long_texts_are_judged_the_same_wherever_they_are_cut()
    {
        foreach (int seed in Seeds.Some(3))
        {
            Random random = new(seed);
            for (int run = 0; run < 3000; run++)
            {
                StringBuilder text = new();
                while (text.Length < random.Next(1, 90))
                    text.Append(Rune.IsValid(random.Next(0x11_0000))
                        ? new Rune(Math.Clamp(random.Next(0x800), 1, 0xD7FF)).ToString()
                        : "x").Append(random.Next(5) == 0 ? "\U0001F600" : "a");
                byte[] bytes = Encoding.UTF8.GetBytes(text.ToString());
                if (random.Next(2) == 0) bytes[random.Next(bytes.Length)] = (byte)random.Next(256);
                int wrong = FirstWrong(bytes, out bool isOpen);
                Utf8Check check = default;
                bool isFine = true;
                int at = 0;
                while (isFine && at < bytes.Length)
                {
                    int length = Math.Min(random.Next(0, 40), bytes.Length - at);
                    isFine = check.Add(bytes.AsSpan(at, length));
                    at += length;
                    Assert.True(isFine == (wrong < 0 || wrong >= at), $"seed {seed}, run {run}");
                }

                if (isFine) Assert.Equal(!isOpen, check.IsComplete);
            }
        }
    }
}
