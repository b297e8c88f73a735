using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Text.RegularExpressions;
using Whimbrel.Http.Tests.Parsing;

namespace Whimbrel.Http.Tests.Programs;

// How other servers judge our test vectors. The list is in differences.txt, and the design page gives a reason for each
// of its groups. WHIMBREL_ACCEPT_DIFFERENCES=1 rewrites it.
public sealed partial class DifferenceTests
{
    private static readonly TimeSpan _patience = TimeSpan.FromSeconds(30);
    private static readonly TimeSpan _grace = TimeSpan.FromSeconds(1);

    // The vectors use our small limits; other servers have their own.
    private static readonly string[] _limits = ["LineTooLong", "HeadTooLarge", "TooManyFields", "BodyTooLarge",
        "ChunkExtensionTooLong"];

    /// <summary>The vectors that can be compared: complete requests that are not addressed to the proxy
    /// itself.</summary>
    private static List<Vectors.Vector> Compared() => [.. Vectors.All
        .Where(static v => !v.IsResponse && v.Outcome != "Wait" && !_limits.Contains(v.Outcome))
        .Where(static v => !Encoding.Latin1.GetString(v.Bytes)
            .TrimStart('\r', '\n').StartsWith("CONNECT", StringComparison.Ordinal)
            && !Encoding.Latin1.GetString(v.Bytes).StartsWith("TRACE", StringComparison.Ordinal))];

    // HAProxy forwards the backend's response before or after it has read the trailers, depending on timing.
    private static bool HasBadTrailers(Vectors.Vector vector) =>
        vector.Section == "chunks" && vector.Outcome is not ("Ok" or "ForbiddenTrailer")
        && vector.Text.StartsWith("0\\r\\n", StringComparison.Ordinal);

    private static string ListPath =>
        Path.Combine(SourceTree.Root, "tests/Whimbrel.Http.Tests/Programs/differences.txt");

    [Theory]
    [InlineData("nginx")]
    [InlineData("apache2")]
    [InlineData("haproxy")]
    [InlineData("lighttpd")]
    public async Task Vectors_that_another_server_judges_differently_are_on_the_list(string name)
    {
        RealProgram.Find(name);
        string version = await OtherServers.VersionAsync(name);
        string head = $"[{name} {version}]";
        List<string> kept = [.. File.ReadAllLines(ListPath)];
        bool isAccepting = Environment.GetEnvironmentVariable("WHIMBREL_ACCEPT_DIFFERENCES") == "1";
        Assert.SkipUnless(isAccepting || kept.Contains(head), $"the list is about "
            + $"{kept.Find(l => l.StartsWith($"[{name} ", StringComparison.Ordinal))}, and here is {version}");

        using OtherServers.Backend backend = new();
        int port = RealProgram.FreePort();
        using RealProgram server = await OtherServers.StartAsync(name, port, backend.Port);
        List<Vectors.Vector> vectors = [.. Compared().Where(v => name != "haproxy" || !HasBadTrailers(v))];
        string[] statuses = new string[vectors.Count];
        await Parallel.ForAsync(0, vectors.Count, new ParallelOptions { MaxDegreeOfParallelism = 16 },
            async (i, _) => statuses[i] = await AskAsync(port, vectors[i].Bytes));
        List<string> found = [.. vectors.Zip(statuses)
            .Where(static p => (p.First.Outcome == "Ok") != (p.Second == "200"))
            .Select(static p => $"{p.First.Outcome} {p.Second} {p.First.Section}: {p.First.Text}")];
        int start = kept.FindIndex(l => l.StartsWith($"[{name} ", StringComparison.Ordinal)) + 1;
        int end = kept.FindIndex(start, static l => l.StartsWith('['));
        if (end < 0) end = kept.Count;
        List<string> listed = [.. kept[start..end].Where(static l => l.Length > 0)];
        if (isAccepting)
        {
            kept.RemoveRange(start, end - start);
            kept[start - 1] = head;
            kept.InsertRange(start, [.. found, ""]);
            await File.WriteAllLinesAsync(ListPath, kept);
        }
        else
        {
            Assert.True(found.SequenceEqual(listed),
                $"{head}: {vectors.Count} vectors\nnot on the list:\n{string.Join('\n', found.Except(listed))}\nno "
                + $"longer so:\n{string.Join('\n', listed.Except(found))}");
        }
    }

    /// <summary>The status of the answer to a message, or that there is none.</summary>
    private static async Task<string> AskAsync(int port, byte[] message)
    {
        using Socket socket = new(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        await socket.ConnectAsync(IPAddress.Loopback, port);
        byte[] answer = new byte[4096];
        int length = 0;
        bool isFinished = false;
        try
        {
            await socket.SendAsync(message);
            while (true)
            {
                Task<int> receiving = socket.ReceiveAsync(answer.AsMemory(length)).AsTask();
                // If the server waits for more data, it receives the end of the stream instead.
                // tidy: waits because silence is what is looked for
                if (!isFinished && await Task.WhenAny(receiving, Task.Delay(_grace)) != receiving)
                {
                    socket.Shutdown(SocketShutdown.Send);
                    isFinished = true;
                }

                int count = await receiving.WaitAsync(_patience);
                if (count == 0) return "none";
                length += count;
                Match status = Status().Match(Encoding.Latin1.GetString(answer, 0, length));
                if (status.Success) return status.Groups["status"].Value;
                if (length == answer.Length) return "strange";
            }
        }
        catch (SocketException)
        {
            return "none";
        }
        catch (TimeoutException)
        {
            return "silent";
        }
    }

    [GeneratedRegex(@"\A(?:HTTP/1\.1 100 [^\r]*\r\n\r\n)?HTTP/1\.[01] (?!100)(?<status>\d{3})")]
    private static partial Regex Status();

    [Fact]
    public void Each_group_of_differences_has_its_reason_in_the_design()
    {
        string page = File.ReadAllText(Path.Combine(SourceTree.Root, "docs/design/0033-http-beside-other-servers.md"));
        IEnumerable<string> groups = File.ReadAllLines(ListPath)
            .Where(static l => l.Length > 0 && l[0] is not ('[' or '#'))
            .Select(static l => l.Split(' ')[0] == "Ok" ? l[(l.IndexOf(' ', 3) + 1)..] : l.Split(' ')[0]).Distinct();
        Assert.DoesNotContain(groups, g => !page.Contains($"`{g}`", StringComparison.Ordinal));
    }
}
