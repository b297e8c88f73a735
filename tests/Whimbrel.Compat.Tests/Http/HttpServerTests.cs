using System.Globalization;
using System.Net.Sockets;
using System.Text;
using Whimbrel.Http;

namespace Whimbrel.Compat.Tests.Http;

// The server's side, through a connection. H1 to H9 are rows of the known defects of the old library; these tests show
// that they do not exist here.
public sealed class HttpServerTests
{
    [Fact]
    public void A_request_is_reported_by_its_header_then_whole_and_answered()
    {
        using WebHost host = new();
        string answer = host.Ask("POST /a?b HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi", until: "POST /a?b hi");
        Assert.StartsWith("HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=UTF-8\r\nContent-Length: 12\r\n\r\n",
            answer, StringComparison.Ordinal);
        Assert.Equal(["header POST /a?b", "request POST /a?b hi"], host.Told);
    }

    // H2, H3: a message with a chunked body was read up to the first empty line; lengths were added up, or counted
    // twice.
    [Fact]
    public void H3_a_chunked_body_is_read_to_its_end_and_comes_with_its_length()
    {
        using WebHost host = new();
        host.Answer = static (session, request) =>
            session.SendResponseAsync(session.Response.MakeGetResponse(request.Cache.ToString()));
        string answer = host.Ask("PUT /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
            + "chunked\r\n\r\n4\r\na\r\n\r\r\n3\r\n\nbc\r\n0\r\n\r\n", until: "bc");
        Assert.EndsWith("PUT /c HTTP/1.1\r\nHost: h\r\nContent-Length: 7\r\n\r\na\r\n\r\nbc", answer,
            StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "400")]
    [InlineData("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n", "400")]
    [InlineData("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 2147483648\r\n\r\n", "413")]
    [InlineData("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", "400")]
    [InlineData("GET / HTTP/1.1\r\nHost: h\r\nX : y\r\n\r\n", "400")]
    [InlineData("GET / HTTP/1.1\r\nHost: h\r\nX\r\n\r\n", "400")]
    [InlineData("GET / HTTP/1.1\r\nHost: h\r\nX: \u0001\r\n\r\n", "400")]
    [InlineData("GET / HTTP/1.1\nHost: h\n\n", "400")]
    public void H2_H5_what_is_not_HTTP_gets_one_answer_and_the_end(string request, string status)
    {
        using WebHost host = new();
        string answer = host.Ask(request + "GET /behind HTTP/1.1\r\nHost: h\r\n\r\n");
        Assert.StartsWith($"HTTP/1.1 {status} ", answer, StringComparison.Ordinal);
        Assert.Contains("Connection: close\r\n", answer, StringComparison.Ordinal);
        Assert.StartsWith("error ", host.Told.Last(), StringComparison.Ordinal);
        Assert.DoesNotContain(host.Told, static t => t.Contains("/behind", StringComparison.Ordinal));
    }

    [Fact]
    public void H1_a_header_without_end_ends_at_its_limit()
    {
        using WebHost host = new();
        Assert.StartsWith("HTTP/1.1 431 ", host.Ask("GET / HTTP/1.1\r\nHost: h\r\nX: " + new string('x', 70_000)),
            StringComparison.Ordinal);
        Assert.StartsWith("HTTP/1.1 431 ", host.Ask("GET / HTTP/1.1\r\nHost: h\r\n"
            + string.Concat(Enumerable.Range(0, 1001).Select(static i => $"X{i}: 1\r\n"))), StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("GET / HTTP/1.1\r\nHost: h\r\n")]
    [InlineData("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab")]
    public void H1_a_request_that_does_not_come_in_time_ends_and_an_idle_connection_lives(string begun)
    {
        using WebHost host = new()
        {
            Limits = new HttpOptions
            {
                HeadTimeout = TimeSpan.FromMilliseconds(100),
                BodyTimeout = TimeSpan.FromMilliseconds(100)
            }
        };
        using Socket idle = host.ConnectPeer();
        idle.Send("GET /first HTTP/1.1\r\nHost: h\r\n\r\n"u8);
        Assert.EndsWith("GET /first ", WebHost.Read(idle, "GET /first "), StringComparison.Ordinal);
        string answer = host.Ask(begun);
        Assert.StartsWith("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n", answer, StringComparison.Ordinal);
        idle.Send("GET /second HTTP/1.1\r\nHost: h\r\n\r\n"u8);
        Assert.EndsWith("GET /second ", WebHost.Read(idle, "GET /second "), StringComparison.Ordinal);
    }

    [Theory] // siblings: each time has its own option
    [InlineData("GET / HTTP/1.1\r\nHost: h\r\n", "\r\n", true)]
    [InlineData("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab", "cde", false)]
    public void H1_the_time_of_a_head_is_not_that_of_a_body(string begun, string rest, bool isHead)
    {
        TimeSpan brief = TimeSpan.FromMilliseconds(100), ample = TimeSpan.FromMinutes(10);
        using WebHost patient = new()
        {
            Limits = new HttpOptions { HeadTimeout = isHead ? ample : brief, BodyTimeout = isHead ? brief : ample }
        };
        using Socket slow = patient.ConnectPeer();
        slow.Send(Encoding.Latin1.GetBytes(begun));
        // The other time passes meanwhile, several times.
        string other = isHead ? "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab" : "GET / HTTP/1.1\r\n";
        for (int i = 0; i < 3; i++) Assert.StartsWith("HTTP/1.1 408 ", patient.Ask(other), StringComparison.Ordinal);
        slow.Send(Encoding.Latin1.GetBytes(rest));
        Assert.StartsWith("HTTP/1.1 200 ", WebHost.Read(slow, isHead ? "GET / " : "PUT / abcde"),
            StringComparison.Ordinal);
    }

    [Fact] // the head took a part of its time, and the body has all of its own
    public void H1_a_body_after_a_slow_head_has_the_time_of_a_body()
    {
        using WebHost host = new()
        {
            Limits = new HttpOptions
            {
                HeadTimeout = TimeSpan.FromMilliseconds(400),
                BodyTimeout = TimeSpan.FromMinutes(10)
            }
        };
        using Socket slow = host.ConnectPeer();
        slow.Send("PUT / HTTP/1.1\r\n"u8);
        Thread.Sleep(100); // tidy: waits because the server must have read it
        slow.Send("Host: h\r\nContent-Length: 5\r\n\r\nab"u8);
        for (int i = 0; i < 2; i++)
            Assert.StartsWith("HTTP/1.1 408 ", host.Ask("GET / HTTP/1.1\r\n"), StringComparison.Ordinal);
        slow.Send("cde"u8);
        Assert.StartsWith("HTTP/1.1 200 ", WebHost.Read(slow, "PUT / abcde"), StringComparison.Ordinal);
    }

    [Fact] // the second answer of a request does not count for a later one
    public void H9_a_request_that_was_answered_twice_does_not_answer_the_next_ones()
    {
        using WebHost host = new();
        TaskCompletionSource later = new();
        host.Answer = (session, request) =>
        {
            if (request.Url == "/twice")
            {
                session.SendResponseAsync(session.Response.MakeGetResponse("one"));
                session.SendResponseAsync(session.Response.MakeGetResponse("two"));
                return;
            }

            later.Task.ContinueWith(_ => session.SendResponseAsync(session.Response.MakeGetResponse("last")),
                TaskScheduler.Default);
        };
        using Socket socket = host.ConnectPeer();
        for (int i = 0; i < 3; i++)
        {
            socket.Send("GET /twice HTTP/1.1\r\nHost: h\r\n\r\n"u8);
            Assert.EndsWith("two", WebHost.Read(socket, "two"), StringComparison.Ordinal);
        }

        socket.Send("GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"u8);
        WebHost.Until(() => host.Told.Contains("request GET /last "));
        later.SetResult();
        Assert.EndsWith("\r\n\r\nlast", WebHost.Read(socket, until: null), StringComparison.Ordinal);
    }

    [Fact]
    public void H9_the_connection_ends_with_an_answer_from_the_cache_too()
    {
        using WebHost host = new();
        host.Cache.Add("/k", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nk"u8.ToArray());
        string answer = host.Ask("GET /k HTTP/1.1\r\nHost: h\r\n\r\nGET /k HTTP/1.1\r\nHost: h\r\n"
            + "Connection: close\r\n\r\n");
        Assert.Equal(3, answer.Split("\r\n\r\nk").Length);
    }

    [Fact]
    public void H4_requests_in_one_segment_and_in_many_are_all_answered_in_order()
    {
        using WebHost host = new();
        string requests = string.Concat(Enumerable.Range(0, 20).Select(static i => string.Create(
            CultureInfo.InvariantCulture, $"POST /{i} HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n{i % 10}")));
        string answer = host.Ask(requests, until: "POST /19 9");
        Assert.Equal(20, answer.Split("HTTP/1.1 200 OK").Length - 1);
        string[] expected = [.. Enumerable.Range(0, 20)
            .Select(static i => string.Create(CultureInfo.InvariantCulture, $"request POST /{i} {i % 10}"))];
        Assert.Equal(expected, host.Told.Where(static t => t.StartsWith("request", StringComparison.Ordinal)));

        using Socket socket = host.ConnectPeer();
        foreach (char c in "GET /slow HTTP/1.1\r\nHost: h\r\n\r\n") socket.Send([(byte)c]);
        Assert.EndsWith("GET /slow ", WebHost.Read(socket, "GET /slow "), StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("GET /x HTTP/1.0\r\n\r\n", true)]
    [InlineData("GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", true)]
    [InlineData("GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", false)]
    public void H9_the_connection_ends_with_the_answer_when_the_client_wants_it(string request, bool ends)
    {
        using WebHost host = new();
        string answer = host.Ask(request + "GET /y HTTP/1.1\r\nHost: h\r\n\r\n", until: ends ? null : "GET /y ");
        Assert.Equal(!ends, answer.Contains("GET /y ", StringComparison.Ordinal));
        Assert.Contains("GET /x ", answer, StringComparison.Ordinal);
    }

    [Fact]
    public void H9_a_body_that_is_sent_by_itself_and_an_answer_that_comes_later_are_waited_for()
    {
        using WebHost host = new();
        TaskCompletionSource later = new();
        host.Answer = (session, _) => later.Task.ContinueWith(_ =>
        {
            session.SendResponseAsync(session.Response.Clear().SetBegin(200).SetBodyLength(6));
            session.SendResponseBodyAsync("abc");
            session.SendResponseBodyAsync("def"u8);
        }, TaskScheduler.Default);
        using Socket socket = host.ConnectPeer();
        socket.Send("GET / HTTP/1.0\r\n\r\n"u8);
        WebHost.Until(() => host.Told.Count == 2);
        later.SetResult();
        Assert.Equal("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 6\r\n\r\nabcdef",
            WebHost.Read(socket, until: null));
    }

    [Fact]
    public void Bytes_after_the_last_request_are_not_read_while_its_answer_is_pending()
    {
        using WebHost host = new();
        WebHost.Serving? asked = null;
        host.Answer = (session, _) => Volatile.Write(ref asked, session);
        using Socket socket = host.ConnectPeer();
        socket.Send(
            "GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\nGET /behind HTTP/1.1\r\nHost: h\r\n\r\n"u8);
        WebHost.Until(() => Volatile.Read(ref asked) is not null);
        asked!.SendResponseAsync(asked.Response.MakeGetResponse("all"));
        Assert.EndsWith("\r\n\r\nall", WebHost.Read(socket, until: null), StringComparison.Ordinal);
        Assert.Equal(["header GET /last", "request GET /last "], host.Told);
    }

    [Fact]
    public void A_broken_request_is_not_answered_before_one_that_waits_for_its_answer()
    {
        using WebHost host = new();
        host.Answer = static (_, _) => { };
        Assert.Equal("", host.Ask("GET /slow HTTP/1.1\r\nHost: h\r\n\r\nno HTTP\r\n\r\n"));
        Assert.StartsWith("error ", host.Told.Last(), StringComparison.Ordinal);
    }

    [Fact]
    public void A_client_that_expects_100_continue_gets_it_once()
    {
        using WebHost host = new();
        using Socket socket = host.ConnectPeer();
        socket.Send("PUT /e HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"u8);
        Assert.Equal("HTTP/1.1 100 Continue\r\n\r\n", WebHost.Read(socket, "\r\n\r\n"));
        socket.Send("ok"u8);
        Assert.StartsWith("HTTP/1.1 200 OK", WebHost.Read(socket, "PUT /e ok"), StringComparison.Ordinal);
    }

    [Fact]
    public void H6_H7_a_file_is_answered_from_the_cache_with_its_exact_bytes_and_its_age()
    {
        using WebHost host = new();
        string folder = Directory.CreateTempSubdirectory("compat").FullName;
        try
        {
            File.WriteAllText(Path.Combine(folder, "index.html"), "<p>hi</p>");
            File.WriteAllText(Path.Combine(folder, "a b.txt"), "space");
            host.AddStaticContent(folder);
            host.AddStaticContent(folder, "/static", "*.html", TimeSpan.FromHours(2));
            Assert.Equal("HTTP/1.1 200 OK\r\nContent-Type: text/html; "
                + "charset=utf-8\r\nCache-Control: max-age=7200\r\nContent-Length: 9\r\n\r\n<p>hi</p>",
                host.Ask("GET /static/index.html?x=1 HTTP/1.0\r\n\r\n"));
            host.RemoveStaticContent(folder);
            host.AddStaticContent(folder, timeout: TimeSpan.FromHours(1));
            string both = host.Ask("GET /index.html HTTP/1.1\r\nHost: h\r\n\r\nGET /a%20b.txt HTTP/1.0\r\n\r\n");
            Assert.Contains("max-age=3600\r\nContent-Length: 9\r\n\r\n<p>hi</p>HTTP/1.1 200 OK", both,
                StringComparison.Ordinal);
            Assert.EndsWith("\r\n\r\nspace", both, StringComparison.Ordinal);
            Assert.Contains("cached /a%20b.txt", host.Told);
            host.RemoveStaticContent(folder);
            // The header that the original sends for each whole minute.
            host.AddStaticContent(folder, timeout: TimeSpan.Zero);
            Assert.Contains("max-age=0\r\n", host.Ask("GET /index.html HTTP/1.0\r\n\r\n"), StringComparison.Ordinal);
            Assert.EndsWith("GET /nothing ", host.Ask("GET /nothing HTTP/1.0\r\n\r\n"), StringComparison.Ordinal);
            host.ClearStaticContent();
            Assert.EndsWith("GET /index.html ", host.Ask("GET /index.html HTTP/1.0\r\n\r\n"), StringComparison.Ordinal);
        }
        finally
        {
            Directory.Delete(folder, recursive: true);
        }
    }

    [Fact]
    public void H3_a_request_that_is_cut_off_is_an_error_and_no_request()
    {
        using WebHost host = new();
        using (Socket socket = host.ConnectPeer())
        {
            socket.Send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc\r\n\r\n"u8);
            WebHost.Until(() => !host.Told.IsEmpty);
        }

        WebHost.Until(() => host.Told.Count == 2);
        Assert.Equal("error The message was not finished.", host.Told.Last());
    }
}
