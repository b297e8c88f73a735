using System.Net;
using Whimbrel;

// Starts a server, connects to it, sends one line in both directions, and prints what was received.
internal static class EchoProgram
{
    internal static async Task RunAsync()
    {
        await using Engine engine = new(new EngineOptions { Loops = 2 });
        await using Server server = new(
            new ServerOptions { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) }, () => new Echo());
        await server.StartAsync();
        TaskCompletionSource<string> answer = new();
        await using Client client = new(new ClientOptions { Engine = engine, EndPoint = server.EndPoint },
            () => new Asker(answer));
        await client.ConnectAsync();
        Console.WriteLine($"{engine.KindName}: {await answer.Task.WaitAsync(TimeSpan.FromSeconds(30))}");
    }
}

internal sealed class Echo : Session
{
    protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);
}

internal sealed class Asker(TaskCompletionSource<string> answer) : Session
{
    protected override void OnConnected() => Send("whimbrel\n");

    protected override int OnData(ReadOnlySpan<byte> unread)
    {
        int end = unread.IndexOf((byte)'\n');
        if (end < 0) return 0;
        answer.TrySetResult(System.Text.Encoding.UTF8.GetString(unread[..end]));
        return end + 1;
    }
}
