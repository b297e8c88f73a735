using System;
using CSharpServer;
using OldPrograms.Host;

namespace OldPrograms.CSharp.Performance;

/// Echoes each datagram, and receives the next when it was sent.
internal static class UdpEchoServer
{
    private static void Main(string[] args)
    {
        var options = new Options(args);
        int port = options.Number("port", 3333), threads = options.Number("threads", Environment.ProcessorCount);
        Console.WriteLine($"Server port: {port}");
        Console.WriteLine($"Working threads: {threads}");
        Console.WriteLine();
        Asio.Run(threads, service =>
        {
            var server = new EchoServer(service, port);
            server.SetupReuseAddress(true);
            server.SetupReusePort(true);
            Keyboard.Serve(server.Start, server.Restart, server.Stop);
        });
    }

    private class EchoServer : UdpServer
    {
        public EchoServer(Service service, int port) : base(service, port, InternetProtocol.IPv4) { }

        protected override void OnStarted() { ReceiveAsync(); }

        protected override void OnReceived(UdpEndpoint endpoint, byte[] buffer, long size)
        {
            if (size == 0) ReceiveAsync();
            else SendAsync(endpoint, buffer, 0, size);
        }

        protected override void OnSent(UdpEndpoint endpoint, long sent) { ReceiveAsync(); }

        protected override void OnError(int error, string category, string message)
        {
            Console.WriteLine($"Server caught an error with code {error} and category '{category}': {message}");
        }
    }
}
