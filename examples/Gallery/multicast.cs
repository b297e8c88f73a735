#:project ../../src/Whimbrel.Datagrams/Whimbrel.Datagrams.csproj
// A multicast feed: numbered prices for all receivers of a network, which find gaps by the numbers.
// Try it: dotnet run multicast.cs receive 239.1.1.1:3334, and in a second terminal with send in place of receive.
using System.Buffers.Binary;
using System.Net;
using System.Text;
using Whimbrel;

if (args is not ["send" or "receive", var where, ..] || !IPEndPoint.TryParse(where, out IPEndPoint? feed))
{
    Console.Error.WriteLine("usage: multicast.cs send|receive GROUP:PORT [INTERFACE]");
    return 2;
}

string? networkInterface = args.ElementAtOrDefault(2); // null: as the system's routes say
Task stopped = StopSignal.WaitAsync();
if (args[0] == "receive") await ReceiveAsync();
else await SendAsync();
return 0;

async Task ReceiveAsync()
{
    DatagramOptions options = new()
    {
        EndPoint = new IPEndPoint(IPAddress.Any, feed.Port),
        ReuseAddress = true, // several receivers on one machine
        Groups = [new MulticastGroup(feed.Address, Interface: networkInterface)],
    };
    await using DatagramSocket socket = new(options, () => new Receiver());
    await socket.StartAsync();
    Console.WriteLine($"Receiving {feed.Address} at {socket.EndPoint}. Ctrl-C stops.");
    await stopped;
}

async Task SendAsync()
{
    DatagramOptions options = new()
    {
        EndPoint = new IPEndPoint(IPAddress.Any, 0),
        MulticastInterface = networkInterface,
        MulticastLoopback = true, // receivers on this machine, too
    };
    await using DatagramSocket socket = new(options);
    await socket.StartAsync();
    Console.WriteLine($"Sending to {feed}. Ctrl-C stops.");
    DatagramPeer group = new(feed);
    for (long number = 1; !stopped.IsCompleted; number++)
    {
        byte[] message = [.. new byte[8], .. Encoding.UTF8.GetBytes($"price {Random.Shared.Next(90, 110)}")];
        BinaryPrimitives.WriteInt64BigEndian(message, number);
        await socket.SendAsync(message, group);
        await Task.WhenAny(stopped, Task.Delay(100));
    }
}

sealed class Receiver : DatagramHandler
{
    private readonly Dictionary<DatagramPeer, long> _last = []; // a sender that starts again has another port

    protected override void OnReceived(ReadOnlySpan<byte> datagram, in DatagramPeer peer)
    {
        if (!BinaryPrimitives.TryReadInt64BigEndian(datagram, out long number)) return;
        if (_last.TryGetValue(peer, out long last) && number > last + 1) Console.WriteLine($"{number - last - 1} lost");
        if (number <= last) return; // twice, or overtaken
        _last[peer] = number;
        Console.WriteLine($"{number} {Encoding.UTF8.GetString(datagram[8..])}");
    }
}
