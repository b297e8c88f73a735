using System;
using System.Net;
using System.Net.Sockets;
using NetCoreServer;
using OldPrograms.Host;

namespace OldPrograms.Performance;

/// Sends a message to all sessions, a given number of times per second.
internal static class WssMulticastServer
{
    private static void Main(string[] args)
    {
        var options = new Options(args);
        int port = options.Number("port", 8080), rate = options.Number("messages", 1_000_000), size = options.Number("size", 32);
        Console.WriteLine($"Server port: {port}");
        Console.WriteLine($"Messages rate: {rate}");
        Console.WriteLine($"Message size: {size}");
        Console.WriteLine();
        var server = new MulticastServer(Certificates.OfServer(), IPAddress.Any, port) { OptionNoDelay = true };
        byte[] message = new byte[size];
        var ticker = new Ticker(rate, () => server.MulticastBinary(message, 0, message.Length));
        Keyboard.Serve(() => server.Start() && ticker.Start(), server.Restart, () => ticker.Stop() && server.Stop());
    }

    private class MulticastServer : WssServer
    {
        public MulticastServer(SslContext context, IPAddress address, int port) : base(context, address, port) { }

        protected override SslSession CreateSession() { return new MulticastSession(this); }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Server caught an error with code {error}");
        }
    }

    private class MulticastSession : WssSession
    {
        public MulticastSession(WssServer server) : base(server) { }

        // A slow client misses messages, and stays connected.
        public override bool SendAsync(ReadOnlySpan<byte> buffer)
        {
            return BytesPending + buffer.Length <= 1024 * 1024 && base.SendAsync(buffer);
        }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Session caught an error with code {error}");
        }
    }
}
