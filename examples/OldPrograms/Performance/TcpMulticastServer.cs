using System;
// uds: using System.IO;
using System.Net; // ip
using System.Net.Sockets;
using NetCoreServer;
using OldPrograms.Host;

namespace OldPrograms.Performance;

/// Sends a message to all sessions, a given number of times per second.
internal static class TcpMulticastServer
{
    private static void Main(string[] args)
    {
        var options = new Options(args);
        int rate = options.Number("messages", 1_000_000), size = options.Number("size", 32);
        int port = options.Number("port", 1111); // ip
        Console.WriteLine($"Server port: {port}"); // ip
        // uds: string path = options.Text("path", Path.Combine(Path.GetTempPath(), "multicast.sock"));
        // uds: Console.WriteLine($"Server path: {path}");
        Console.WriteLine($"Messages rate: {rate}");
        Console.WriteLine($"Message size: {size}");
        Console.WriteLine();
        var server = new MulticastServer(IPAddress.Any, port) { OptionNoDelay = true, OptionReuseAddress = true }; // plain
        // tls: var server = new MulticastServer(Certificates.OfServer(), IPAddress.Any, port) { OptionNoDelay = true, OptionReuseAddress = true };
        // uds: var server = new MulticastServer(path);
        byte[] message = new byte[size];
        var ticker = new Ticker(rate, () => server.Multicast(message, 0, message.Length));
        Keyboard.Serve(() => server.Start() && ticker.Start(), server.Restart, () => ticker.Stop() && server.Stop());
    }

    private class MulticastServer : TcpServer
    {
        public MulticastServer(IPAddress address, int port) : base(address, port) { } // plain
        // tls: public MulticastServer(SslContext context, IPAddress address, int port) : base(context, address, port) { }
        // uds: public MulticastServer(string path) : base(path) { }

        protected override TcpSession CreateSession() { return new MulticastSession(this); }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Server caught an error with code {error}");
        }
    }

    private class MulticastSession : TcpSession
    {
        public MulticastSession(TcpServer server) : base(server) { }

        // A slow client misses messages, and stays connected.
        public override bool SendAsync(ReadOnlySpan<byte> buffer)
        {
            return BytesPending + BytesSending + buffer.Length <= 1024 * 1024 && base.SendAsync(buffer);
        }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Session caught an error with code {error}");
        }
    }
}
