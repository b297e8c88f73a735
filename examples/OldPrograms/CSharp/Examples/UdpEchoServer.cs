using System;
using System.Text;
using CSharpServer;
using OldPrograms.Host;

namespace OldPrograms.CSharp.Examples;

/// Sends each datagram back to its sender.
internal static class UdpEchoServer
{
    private static void Main(string[] args)
    {
        int port = args.Length > 0 ? int.Parse(args[0]) : 3333;
        Console.WriteLine($"UDP server port: {port}");
        Asio.Run(service =>
        {
            var server = new EchoServer(service, port);
            Keyboard.Serve(server.Start, server.Restart, server.Stop);
        });
    }

    private class EchoServer : UdpServer
    {
        public EchoServer(Service service, int port) : base(service, port, InternetProtocol.IPv4) { }

        protected override void OnStarted() { ReceiveAsync(); }

        protected override void OnReceived(UdpEndpoint endpoint, byte[] buffer, long size)
        {
            Console.WriteLine("Incoming: " + Encoding.UTF8.GetString(buffer, 0, (int)size));
            SendAsync(endpoint, buffer, 0, size);
        }

        protected override void OnSent(UdpEndpoint endpoint, long sent) { ReceiveAsync(); }

        protected override void OnError(int error, string category, string message)
        {
            Console.WriteLine($"Echo UDP server caught an error with code {error} and category '{category}': {message}");
        }
    }
}
