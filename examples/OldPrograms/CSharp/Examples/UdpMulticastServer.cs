using System;
using CSharpServer;
using OldPrograms.Host;

namespace OldPrograms.CSharp.Examples;

/// Sends typed lines to a group.
internal static class UdpMulticastServer
{
    private static void Main(string[] args)
    {
        string address = args.Length > 0 ? args[0] : "239.255.0.1";
        int port = args.Length > 1 ? int.Parse(args[1]) : 3334;
        Console.WriteLine($"UDP multicast address: {address}");
        Console.WriteLine($"UDP multicast port: {port}");
        Asio.Run(service =>
        {
            var server = new MulticastServer(service);
            Keyboard.Serve(() => server.Start(address, port), server.Restart, server.Stop, line => server.MulticastSync("(admin) " + line));
        });
    }

    private class MulticastServer : UdpServer
    {
        public MulticastServer(Service service) : base(service, 0, InternetProtocol.IPv4) { }

        protected override void OnError(int error, string category, string message)
        {
            Console.WriteLine($"Multicast UDP server caught an error with code {error} and category '{category}': {message}");
        }
    }
}
