// The README's echo server, as bench/run start measures it: it prints its address, and stops at a line on stdin.
using System.Net;
using Whimbrel;

await using var server = new Server(new ServerOptions { EndPoint = new IPEndPoint(IPAddress.Loopback, 0) },
    static () => new Echo());
await server.StartAsync();
Console.WriteLine($"listening on {server.EndPoint} on {server.Engine}. Enter stops.");
Console.ReadLine();

internal sealed class Echo : Session
{
    protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);
}
