using System;
using CSharpServer;
using OldPrograms.Host;

namespace OldPrograms.CSharp.Performance;

/// Sends a message to all sessions, a given number of times per second.
internal static class TcpMulticastServer
{
    private static void Main(string[] args)
    {
        var options = new Options(args);
        int port = options.Number("port", 1111), threads = options.Number("threads", Environment.ProcessorCount);
        int rate = options.Number("messages", 1_000_000), size = options.Number("size", 32);
        Console.WriteLine($"Server port: {port}");
        Console.WriteLine($"Working threads: {threads}");
        Console.WriteLine($"Messages rate: {rate}");
        Console.WriteLine($"Message size: {size}");
        Console.WriteLine();
        Asio.Run(threads, service =>
        {
            var server = new MulticastServer(service, port); // plain
            // tls: var server = new MulticastServer(service, Contexts.OfServer(), port);
            server.SetupReuseAddress(true);
            server.SetupReusePort(true);
            byte[] message = new byte[size];
            var ticker = new Ticker(rate, () => server.Multicast(message, 0, message.Length));
            Keyboard.Serve(() => server.Start() && ticker.Start(), server.Restart, () => ticker.Stop() && server.Stop());
        });
    }

    private class MulticastServer : TcpServer
    {
        public MulticastServer(Service service, int port) : base(service, port, InternetProtocol.IPv4) { } // plain
        // tls: public MulticastServer(Service service, SslContext context, int port) : base(service, context, port, InternetProtocol.IPv4) { }

        protected override TcpSession CreateSession() { return new MulticastSession(this); }

        protected override void OnError(int error, string category, string message)
        {
            Console.WriteLine($"Server caught an error with code {error} and category '{category}': {message}");
        }
    }

    private class MulticastSession : TcpSession
    {
        public MulticastSession(TcpServer server) : base(server) { }

        // A slow client misses messages, and stays connected.
        protected override bool OnSending(long size) { return BytesPending + size <= 1024 * 1024; }

        protected override void OnError(int error, string category, string message)
        {
            Console.WriteLine($"Session caught an error with code {error} and category '{category}': {message}");
        }
    }
}
