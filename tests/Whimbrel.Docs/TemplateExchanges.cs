using System.Net;
using System.Net.Http.Json;
using System.Net.Sockets;
using System.Text;

namespace Whimbrel.Docs;

// What a client exchanges with a server made from each template, and its stop at a signal. The same for the program
// that the JIT compiler runs and for the native one.
internal static class TemplateExchanges
{
    public static async Task EchoAsync(RunningProgram server)
    {
        using var client = await server.ConnectAsync();
        Assert.Equal("hello", await AskAsync(client, "hello\n"));
        client.Close(); // a drain waits for connected clients
        Assert.Contains("Stopped: ", await server.StopAsync(), StringComparison.Ordinal);
    }

    public static async Task ChatAsync(RunningProgram server)
    {
        using var anna = await server.ConnectAsync();
        using var bert = await server.ConnectAsync();
        Assert.Equal("Who are you?", await AskAsync(anna, "anna\n"));
        Assert.Equal("Hello anna. /quit leaves.", await AskAsync(anna, ""));
        await AskAsync(bert, "bert\n");
        await AskAsync(bert, "hi\n");
        Assert.Equal("bert is here", await AskAsync(anna, ""));
        Assert.Equal("bert: hi", await AskAsync(anna, ""));
        var stopped = server.StopAsync();
        Assert.Equal("The server stops. Good-bye.", await AskAsync(anna, ""));
        anna.Close();
        bert.Close();
        Assert.Contains("Chat has stopped", await stopped, StringComparison.Ordinal);
    }

    public static async Task WebAsync(RunningProgram server, string name)
    {
        using var client = new HttpClient { BaseAddress = new Uri($"http://{server.EndPoint}") };
        Assert.Equal("Hello you", await client.GetStringAsync("/hello/you"));
        Assert.Contains($"<h1>{name}</h1>", await client.GetStringAsync("/"), StringComparison.Ordinal);
        Assert.Equal(HttpStatusCode.Created,
            (await client.PostAsJsonAsync("/notes", new { text = "buy milk" })).StatusCode);
        Assert.Equal(HttpStatusCode.BadRequest,
            (await client.PostAsync("/notes", new StringContent("{", null, "application/json"))).StatusCode);
        Assert.Equal("""[{"text":"buy milk"}]""", await client.GetStringAsync("/notes"));

        using var socket = new System.Net.WebSockets.ClientWebSocket();
        await socket.ConnectAsync(new Uri($"ws://{server.EndPoint}/echo"), CancellationToken.None)
            .WaitAsync(RunningProgram.Patience);
        await socket.SendAsync(Encoding.UTF8.GetBytes("hello"), System.Net.WebSockets.WebSocketMessageType.Text,
            endOfMessage: true, CancellationToken.None);
        var answer = new byte[100];
        var received = await socket.ReceiveAsync(answer, CancellationToken.None).WaitAsync(RunningProgram.Patience);
        Assert.Equal("hello", Encoding.UTF8.GetString(answer, 0, received.Count));
        socket.Abort();
        client.Dispose();
        Assert.Contains("Web has stopped", await server.StopAsync(), StringComparison.Ordinal);
    }

    // Sends a text and reads a line.
    public static async Task<string> AskAsync(TcpClient client, string text)
    {
        await client.GetStream().WriteAsync(Encoding.UTF8.GetBytes(text));
        var line = new StringBuilder();
        var one = new byte[1];
        while (await client.GetStream().ReadAsync(one).AsTask()
            .WaitAsync(RunningProgram.Patience) == 1 && one[0] != '\n')
            line.Append((char)one[0]);
        return line.ToString();
    }
}
