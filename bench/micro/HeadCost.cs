using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Bench.Micro;

/// <summary>Cost of a request head: the smallest one, and one of a browser.</summary>
internal static class HeadCost
{
    private const int Heads = 1000;

    private static readonly byte[] _small =
        Encoding.ASCII.GetBytes("GET /bytes/1024 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nA: b\r\n\r\n");
    private static readonly byte[] _browser = Encoding.ASCII.GetBytes(
        "GET /assets/app.js?v=20260101 HTTP/1.1\r\nHost: www.example.org\r\nConnection: keep-alive\r\n"
        + "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 "
        + "Safari/537.36\r\n"
        + "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,"
        + "application/signed-exchange;v=b3;q=0.7\r\n"
        + "Accept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en-US,en;q=0.9,de;q=0.8\r\nReferer: "
        + "https://www.example.org/index.html\r\n"
        + "Cookie: session=0123456789abcdef0123456789abcdef0123456789abcdef; theme=dark; "
        + "consent=analytics%3Dfalse%26ads%3Dfalse; seen=1730000000\r\n"
        + "Cache-Control: max-age=0\r\n\r\n");

    internal static int Run(int rounds)
    {
        var whole = Measure($"head of {_small.Length} B", _small, rounds)
            & Measure($"head of {_browser.Length} B, 9 fields", _browser, rounds);
        return whole ? 0 : 1;
    }

    private static bool Measure(string name, byte[] head, int rounds)
    {
        HttpReader reader = new();
        return ShortStretches.Measure(name, rounds, Heads, () =>
        {
            var read = 0;
            for (var i = 0; i < Heads; i++)
            {
                reader.BeginRequest(HttpReaderLimits.Default);
                if (reader.Read(head) == HttpReading.Done) read++;
            }

            return read;
        });
    }
}
