using System.Globalization;
using System.Text;

namespace Whimbrel.Http.Tests.WebSockets.Cases;

/// <summary>
/// A case of permessage-deflate: compressed messages, each of which must come back compressed within what was agreed
/// on.
/// </summary>
/// <param name="Id">Its number in the public catalogue.</param>
/// <param name="Kind">What the messages are made of.</param>
/// <param name="Length">Bytes of each.</param>
/// <param name="Fragment">Bytes of its frames; 0: one frame.</param>
/// <param name="Terms">What the peer asks for: as a client its offers, the dearest first, and as a server what it names
/// in its answer.</param>
internal sealed record PackedCase(string Id, string Kind, int Length, int Fragment, IReadOnlyList<PackedTerms> Terms)
{
    private const int MostBytes = 32 * 1024;

    /// <summary>Number of messages: in a usual run at least two, and at most what 32 KiB hold.</summary>
    internal int Count => Depth.IsDeep ? 1000 : Math.Clamp(MostBytes / Length, 2, 30);

    internal bool IsText => Kind is "JSON" or "HTML";

    private static readonly (int Length, int Fragment)[] _sizes =
    [
        (16, 0), (64, 0), (256, 0), (1024, 0), (4096, 0), (8192, 0), (16384, 0), (32768, 0), (65536, 0), (131072, 0),
        (8192, 256), (16384, 256), (32768, 256), (65536, 256), (131072, 256), (131072, 1024), (131072, 4096),
        (131072, 32768),
    ];

    internal static IReadOnlyDictionary<string, PackedCase> All { get; } = Sections().ToDictionary(static c => c.Id);

    private static IEnumerable<PackedCase> Sections()
    {
        string[] kinds = ["JSON", "picture", "prose", "noise", "HTML"];
        for (int k = 0; k < kinds.Length; k++)
        {
            foreach (PackedCase each in Sizes($"12.{k + 1}", kinds[k], new PackedTerms(false, 0))) yield return each;
        }

        // Older versions of the catalogue use windows of 8 bits, later ones of 9.
        PackedTerms[][] terms =
        [
            [new(false, 0)], [new(true, 0)], [new(false, 9)], [new(false, 15)], [new(true, 9)], [new(true, 15)],
            [new(true, 9), new(true, 0), new(false, 0)],
        ];
        for (int t = 0; t < terms.Length; t++)
        {
            foreach (PackedCase each in Sizes($"13.{t + 1}", "JSON", terms[t])) yield return each;
        }

        foreach (PackedCase each in Sizes("13.3 of 8", "JSON", new PackedTerms(false, 8)).Take(6)) yield return each;
        foreach (PackedCase each in Sizes("13.7 of 8", "JSON", new PackedTerms(true, 8), new PackedTerms(true, 0))
            .Take(6))
            yield return each;
    }

    private static IEnumerable<PackedCase> Sizes(string section, string kind, params PackedTerms[] terms) =>
        _sizes.Select((s, i) => new PackedCase(string.Create(CultureInfo.InvariantCulture, $"{section}.{i + 1}"), kind,
            s.Length, s.Fragment, terms));

    /// <summary>The messages: sections of one long text or picture, which wraps around.</summary>
    internal IEnumerable<byte[]> Messages()
    {
        byte[] data = s_data[Kind];
        int at = 0;
        for (int i = 0; i < Count; i++)
        {
            byte[] message = new byte[Length];
            for (int b = 0; b < Length; b++) message[b] = data[(at + b) % data.Length];
            at = (at + Length) % data.Length;
            yield return message;
        }
    }

    private static readonly Dictionary<string, byte[]> s_data = new()
    {
        ["JSON"] = Repeated(static r => $"{{\"id\":{r.Next(100000)},\"name\":\"{Word(r)} "
            + $"{Word(r)}\",\"values\":[{r.Next(100)},{r.NextDouble():F3}],\"on\":"
            + $"{(r.Next(2) == 0 ? "true" : "false")}}},\n"),
        ["HTML"] = Repeated(static r => $"<tr class=\"row{r.Next(2)}\"><td>{Word(r)}</td><td><a "
            + $"href=\"/{Word(r)}/{r.Next(500)}\">{Word(r)}</a></td></tr>\n"),
        ["prose"] = Repeated(static r => $"{Word(r)} {Word(r)}, {Word(r)} {Word(r)}.\n"),
        ["picture"] = [.. Enumerable.Range(0, 512 * 300)
            .Select(static i => (byte)(128 + 90 * Math.Sin(i % 512 / 40.0) * Math.Cos(i / 512 / 60.0) + i * 7919 % 5))],
        ["noise"] = Noise(150_000),
    };

    private static byte[] Noise(int length)
    {
        byte[] bytes = new byte[length];
        new Random(4).NextBytes(bytes);
        return bytes;
    }

    private static byte[] Repeated(Func<Random, string> line)
    {
        Random random = new(3);
        StringBuilder text = new();
        while (text.Length < 200_000) text.Append(line(random));
        return Encoding.ASCII.GetBytes(text.ToString());
    }

    private static string Word(Random random)
    {
        string[] parts = ["wim", "brel", "cur", "lew", "god", "wit", "sand", "pip", "er", "dun", "lin", "knot",
            "stint", "ruff"];
        return string.Concat(Enumerable.Range(0, random.Next(1, 4)).Select(_ => parts[random.Next(parts.Length)]));
    }
}

/// <summary>Parameters that a peer imposes on the end under test.</summary>
/// <param name="Forgets">No context takeover.</param>
/// <param name="Bits">Window bits; 0: unrestricted.</param>
internal readonly record struct PackedTerms(bool Forgets, int Bits)
{
    /// <summary>The offer of a client, which accepts any window itself.</summary>
    internal string Offer =>
        $"permessage-deflate; client_max_window_bits{(Forgets ? "; server_no_context_takeover" : "")}"
        + $"{(Bits > 0 ? $"; server_max_window_bits={Bits}" : "")}";

    /// <summary>The response of a server.</summary>
    internal string Answer => $"permessage-deflate{(Forgets ? "; client_no_context_takeover" : "")}"
        + $"{(Bits > 0 ? $"; client_max_window_bits={Bits}" : "")}";
}
