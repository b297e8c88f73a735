using System;
using CSharpServer;
using OldPrograms.Host;

namespace OldPrograms.CSharp.Performance;

/// Sends a datagram to a group, a given number of times per second.
internal static class UdpMulticastServer
{
    private static void Main(string[] args)
    {
        var options = new Options(args);
        string address = options.Text("address", "239.255.0.1");
        int port = options.Number("port", 3333), threads = options.Number("threads", Environment.ProcessorCount);
        int rate = options.Number("messages", 1_000_000), size = options.Number("size", 32);
        Console.WriteLine($"Multicast address: {address}");
        Console.WriteLine($"Multicast port: {port}");
        Console.WriteLine($"Working threads: {threads}");
        Console.WriteLine($"Messages rate: {rate}");
        Console.WriteLine($"Message size: {size}");
        Console.WriteLine();
        Asio.Run(threads, service =>
        {
            var server = new MulticastServer(service);
            server.SetupReuseAddress(true);
            server.SetupReusePort(true);
            byte[] message = new byte[size];
            var ticker = new Ticker(rate, () => server.Multicast(message, 0, message.Length));
            Keyboard.Serve(() => server.Start(address, port) && ticker.Start(), server.Restart, () => ticker.Stop() && server.Stop());
        });
    }

    private class MulticastServer : UdpServer
    {
        public MulticastServer(Service service) : base(service, 0, InternetProtocol.IPv4) { }

        protected override void OnError(int error, string category, string message)
        {
            Console.WriteLine($"Server caught an error with code {error} and category '{category}': {message}");
        }
    }
}
