using System.Net;
using System.Net.Sockets;
using System.Text;
using Microsoft.AspNetCore.Server.Kestrel.Core;

namespace Whimbrel.Kestrel.Tests;

// What a client observes at its socket, byte by byte, including how the connection ends: each case runs on the stock
// transport and on ours, with the same outcome.
public sealed class ComparisonTests
{
    private const string Head = " HTTP/1.1\r\nHost: x\r\n";
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(60);

    private static CancellationToken Token => TestContext.Current.CancellationToken;

    /// <summary>Address that the server listens on and the client connects to; and the end points that the application
    /// reports.</summary>
    public static TheoryData<string, string> Places => new()
    {
        { "::", "127.0.0.1" }, { "::", "::1" }, { "::1", "::1" }, { "0.0.0.0", "127.0.0.1" },
        { "127.0.0.1", "127.0.0.1" },
    };

    [Theory]
    [MemberData(nameof(Places))]
    public async Task The_application_sees_the_same_addresses(string listen, string connect)
    {
        Assert.SkipUnless(Socket.OSSupportsIPv6, "This machine has no IPv6.");
        string stock = await AskAsync("stock"), ours = await AskAsync("pool");
        Assert.Equal(stock, ours);
        Assert.Contains(connect, stock, StringComparison.Ordinal);

        async Task<string> AskAsync(string transport)
        {
            await using SampleSite site = await SampleSite.StartAsync(transport, kestrel =>
                kestrel.Listen(IPAddress.Parse(listen), 0, static end => end.Protocols = HttpProtocols.Http1));
            using Socket socket = await ConnectAsync(connect, site.Plain.Port);
            await socket.SendAsync(Bytes($"GET /ends{Head}Connection: close\r\n\r\n"), Token);
            string client = ((IPEndPoint)socket.LocalEndPoint!).Port.ToString(null, null),
                server = site.Plain.Port.ToString(null, null);
            string text = await ReadAsync(socket);
            return text[text.IndexOf("\r\n\r\n", StringComparison.Ordinal)..].Replace(client, "CLIENT",
                StringComparison.Ordinal).Replace(server, "SERVER", StringComparison.Ordinal);
        }
    }

    /// <summary>Bytes sent; whether the client shuts down its sending side afterwards; how the exchange continues. If
    /// it depends on timing whether a response is sent before the end, only the ends are compared.</summary>
    public static TheoryData<string, string, bool, string> Talks => new()
    {
        { "the handler returns at the client's FIN", $"GET /wait{Head}\r\n", true, "begun" },
        { "the handler answers after the client's FIN", $"GET /slow{Head}\r\n", true, "begun, released" },
        { "a FIN behind a whole request", $"GET /plaintext{Head}\r\n", true, "ends" },
        { "a FIN behind two pipelined requests", $"GET /plaintext{Head}\r\nGET /json{Head}\r\n", true, "ends" },
        { "a FIN in the middle of a head", $"GET /plaintext{Head}", true, "ends" },
        { "a FIN and no request", "", true, "" },
        { "the end that the client asked for", $"GET /plaintext{Head}Connection: close\r\n\r\n", false, "" },
        { "a request that is none", "nonsense\r\n\r\n", false, "" },
        { "an abort of the application", $"GET /abort{Head}\r\n", false, "ends" },
        { "an abort of the application after the client's FIN", $"GET /drop{Head}\r\n", true, "begun, released" },
        { "a body that nobody reads", $"POST /plaintext{Head}Content-Length: 5\r\nConnection: close\r\n\r\n12345",
            false, "" },
    };

    [Theory]
    [MemberData(nameof(Talks))]
    public async Task The_client_sees_the_same_answer_and_the_same_end(string what, string sent, bool finishes,
        string course)
    {
        string stock = await TalkAsync("stock", sent, finishes, course);
        foreach (string transport in (string[])["pool", "inline"])
        {
            string ours = await TalkAsync(transport, sent, finishes, course);
            Assert.True(stock == ours, $"{what}\nstock: {stock}\n{transport}: {ours}");
        }
    }

    private static async Task<string> TalkAsync(string transport, string sent, bool finishes, string course)
    {
        await using SampleSite site = await SampleSite.StartAsync(transport);
        using Socket socket = await ConnectAsync("127.0.0.1", site.Plain.Port);
        await socket.SendAsync(Bytes(sent), Token);
        bool endsOnly = course == "ends";
        if (course.Length > 0 && !endsOnly) await site.Begun.WaitAsync(s_patience, Token);
        if (finishes) socket.Shutdown(SocketShutdown.Send);
        if (course.EndsWith("released", StringComparison.Ordinal))
        {
            await site.Aborted.Task.WaitAsync(s_patience, Token);
            site.Release.Release();
        }

        string seen = await ReadAsync(socket);
        return endsOnly ? seen[^3..] : seen;
    }

    // Everything received, without the Date field, and how the connection ended.
    private static async Task<string> ReadAsync(Socket socket)
    {
        StringBuilder all = new();
        byte[] memory = new byte[10_000];
        string end = "FIN";
        try
        {
            for (int count;
                (count = await socket.ReceiveAsync(memory, Token).AsTask().WaitAsync(s_patience, Token)) > 0;)
                all.Append(Encoding.Latin1.GetString(memory, 0, count));
        }
        catch (SocketException e) when (e.SocketErrorCode == SocketError.ConnectionReset)
        {
            end = "RST";
        }

        return string.Join("\r\n", all.ToString().Split("\r\n")
            .Where(static line => !line.StartsWith("Date: ", StringComparison.Ordinal))) + end;
    }

    private static byte[] Bytes(string text) => Encoding.Latin1.GetBytes(text);

    private static async Task<Socket> ConnectAsync(string host, int port)
    {
        IPAddress address = IPAddress.Parse(host);
        Socket socket = new(address.AddressFamily, SocketType.Stream, ProtocolType.Tcp);
        try
        {
            await socket.ConnectAsync(address, port, Token);
            return socket;
        }
        catch
        {
            socket.Dispose();
            throw;
        }
    }
}
