using System;
using CSharpServer;
using OldPrograms.Host;

namespace OldPrograms.CSharp.Performance;

/// Echoes received data.
internal static class SslEchoServer
{
    private static void Main(string[] args)
    {
        var options = new Options(args);
        int port = options.Number("port", 2222), threads = options.Number("threads", Environment.ProcessorCount);
        Console.WriteLine($"Server port: {port}");
        Console.WriteLine($"Working threads: {threads}");
        Console.WriteLine();
        Asio.Run(threads, service =>
        {
            var server = new EchoServer(service, Contexts.OfServer(), port);
            server.SetupReuseAddress(true);
            server.SetupReusePort(true);
            Keyboard.Serve(server.Start, server.Restart, server.Stop);
        });
    }

    private class EchoServer : SslServer
    {
        public EchoServer(Service service, SslContext context, int port) : base(service, context, port, InternetProtocol.IPv4) { }

        protected override SslSession CreateSession() { return new EchoSession(this); }

        protected override void OnError(int error, string category, string message)
        {
            Console.WriteLine($"Server caught an error with code {error} and category '{category}': {message}");
        }
    }

    private class EchoSession : SslSession
    {
        public EchoSession(SslServer server) : base(server) { }

        protected override void OnReceived(byte[] buffer, long size) { SendAsync(buffer, 0, size); }

        protected override void OnError(int error, string category, string message)
        {
            Console.WriteLine($"Session caught an error with code {error} and category '{category}': {message}");
        }
    }
}
