using System.Text;
using System.Text.RegularExpressions;
using Whimbrel.Http.Tests.Serving;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.Site;

public sealed partial class LogTests
{
    private static readonly TimeSpan _patience = TimeSpan.FromSeconds(30);

    [GeneratedRegex("""^\S+ - - \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d \+0000\] "(?<rest>.*)$""")]
    private static partial Regex Line();

    /// <summary>The text after the time in each line.</summary>
    private static string[] Lines(byte[] log) => [.. Encoding.Latin1.GetString(log).Split('\n')[..^1]
        .Select(static l => Line().Match(l) is { Success: true } match ? match.Groups["rest"].Value : l)];

    [Fact]
    public async Task Each_answer_is_a_line_and_nothing_in_it_becomes_another()
    {
        using MemoryStream kept = new();
        HttpLog log = new(kept);
        using (Web web = new(new HttpOptions { Log = log, HeadTimeout = TimeSpan.FromSeconds(1) }))
        {
            web.Network.RethrowsExceptions = false;
            web.Server.Get("/{*path}", static (_, response) => response.Text("hello"));
            web.Server.Get("/pieces", static async (_, response, stop) =>
            {
                await response.WriteAsync(new byte[20_000], stop);
                await response.WriteAsync(new byte[5], stop);
            });
            web.Server.Get("/large", static (_, response) => response.Bytes(new byte[200_000]));
            web.Server.Get("/bad", static (_, _) => throw new InvalidOperationException("mine"));
            web.Server.Get("/never",
                static async (_, _, stop) => await new TaskCompletionSource().Task.WaitAsync(stop));
            TestPeer peer = web.Connect();
            peer.Send(Web.Get("/a?b=c", "Referer: http://r/\r\nUser-Agent: me \" \\ \x1b[31m \t \u00e4\r\n".Replace(
                "\x1b", "\x7e", StringComparison.Ordinal)) + Web.Get("/a\\b|{c}") + Web.Get("/pieces")
                + Web.Get("/large") + Web.Get("/a", verb: "HEAD") + Web.Get("/a", verb: "PUT"));
            peer.Send("GET /old HTTP/1.0\r\n\r\n");
            peer.Receive();
            TestPeer bad = web.Connect(), broken = web.Connect(), slow = web.Connect(), gone = web.Connect();
            bad.Send(Web.Get("/bad"));
            broken.Send("GET /evil HTTP/1.1\n\n");
            slow.Send("GET /sl");
            gone.Send(Web.Get("/never"));
            gone.Reset();
            web.Network.Advance(TimeSpan.FromSeconds(2));
        }

        await log.DisposeAsync();
        string[] lines = Lines(kept.ToArray());
        Assert.Equal(
        [
            """GET /a?b=c HTTP/1.1" 200 5 "http://r/" "me \x22 \x5C ~[31m \x09 \xC3\xA4" """.TrimEnd(),
            """GET /a\x5Cb|{c} HTTP/1.1" 200 5 "-" "-" """.TrimEnd(),
            """GET /pieces HTTP/1.1" 200 20005 "-" "-" """.TrimEnd(),
            """GET /large HTTP/1.1" 200 200000 "-" "-" """.TrimEnd(),
            """HEAD /a HTTP/1.1" 200 0 "-" "-" """.TrimEnd(),
            """PUT /a HTTP/1.1" 405 24 "-" "-" """.TrimEnd(),
            """GET /old HTTP/1.0" 200 5 "-" "-" """.TrimEnd(),
            """GET /bad HTTP/1.1" 500 48 "-" "-" """.TrimEnd(),
            """-" 400 68 "-" "-" """.TrimEnd(),
            """GET /never HTTP/1.1" 499 0 "-" "-" """.TrimEnd(),
            """-" 408 61 "-" "-" """.TrimEnd(),
        ], lines);
        Assert.Equal((0, null), (log.LostLines, log.Failure));
    }

    [Fact]
    public async Task A_very_long_value_is_truncated()
    {
        using MemoryStream kept = new();
        HttpLog log = new(kept);
        using (Web web = new(new HttpOptions { Log = log }))
        {
            TestPeer peer = web.Connect();
            peer.Send(Web.Get("/" + new string('x', 2040),
                $"User-Agent: {new string('"', 5000)}\r\nReferer: {new string('r', 2040)}\r\n"));
            Assert.Equal(404, Web.One(peer).Status);
        }

        await log.DisposeAsync();
        string line = Assert.Single(Lines(kept.ToArray()));
        Assert.Matches("^GET /x{2039}\\.\\.\\. HTTP/1\\.1\" 404 \\d+ \"r{2040}\" \"(\\\\x22){510}\\.\\.\\.\"$", line);
    }

    /// <summary>Accepts nothing until released, or fails.</summary>
    private sealed class SlowStream : MemoryStream
    {
        internal TaskCompletionSource Go { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);

        internal TaskCompletionSource Waits { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);

        internal int Failures { get; set; }

        public override async ValueTask WriteAsync(ReadOnlyMemory<byte> buffer,
            CancellationToken cancellationToken = default)
        {
            Waits.TrySetResult();
            await Go.Task;
            if (Failures-- > 0) throw new IOException("The disk is full.");
            Write(buffer.Span);
        }
    }

    [Fact]
    public async Task Lines_wait_up_to_the_limit_to_the_byte_and_what_is_left_out_is_reported_each_time()
    {
        using MemoryStream one = new();
        HttpLog measured = new(one);
        measured.Add("a"u8, null, 200, 0);
        await measured.DisposeAsync();
        int rest = one.ToArray().Length - 1; // of a line, without the name of the peer
        using SlowStream kept = new();
        HttpLog log = new(kept, 4096);
        log.Add("first"u8, null, 200, 0);
        await kept.Waits.Task.WaitAsync(_patience);
        foreach ((int length, int lost) in ((int, int)[])[(1024, 0), (1024, 0), (1024, 0), (1025, 1), (1024, 1),
            (rest, 2)])
        {
            log.Add(Encoding.ASCII.GetBytes(new string('p', length - rest)), null, 200, 0);
            Assert.Equal((length, lost), (length, log.LostLines));
        }

        kept.Go.SetResult();
        await log.DisposeAsync();
        string[] lines = Encoding.ASCII.GetString(kept.ToArray()).Split('\n')[..^1];
        Assert.Equal(6, lines.Length);
        Assert.StartsWith("# 2 lines are left out here", lines[^1], StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    public async Task Lines_that_do_not_fit_are_counted_and_the_log_contains_their_number(int failures)
    {
        const int Count = 200;
        using SlowStream kept = new() { Failures = failures };
        HttpLog log = new(kept, 4096);
        using (Web web = new(new HttpOptions { Log = log }))
        {
            TestPeer peer = web.Connect();
            peer.Send(Web.Get("/"));
            await kept.Waits.Task.WaitAsync(_patience);
            for (int i = 1; i < Count; i++) peer.Send(Web.Get("/"));
            Assert.Equal(Count, Web.Answers(peer).Length); // no response waits for the log
        }

        Assert.InRange(log.LostLines, 100, 180);
        kept.Go.SetResult();
        await log.DisposeAsync();
        string[] lines = Lines(kept.ToArray());
        int written = lines.Count(static l => l.StartsWith("GET ", StringComparison.Ordinal));
        Assert.Equal(Count, written + log.LostLines);
        Assert.Contains(lines, static l => l.StartsWith("# ", StringComparison.Ordinal));
        Assert.Equal(log.LostLines, lines.Where(static l => l.StartsWith("# ", StringComparison.Ordinal))
            .Sum(static l => long.Parse(l.Split(' ')[1], System.Globalization.CultureInfo.InvariantCulture)));
        Assert.Equal(failures == 0, log.Failure is null);
    }
}
