using System;
using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Threading;
using NetCoreServer;
using OldPrograms.Host;

namespace OldPrograms.Examples;

/// A client of the chat. When the server disconnects, it reconnects.
internal static class WsChatClient
{
    private static void Main(string[] args)
    {
        string address = args.Length > 0 ? args[0] : "127.0.0.1";
        int port = args.Length > 1 ? int.Parse(args[1]) : 8080;
        Console.WriteLine($"WebSocket server address: {address}");
        Console.WriteLine($"WebSocket server port: {port}");
        Console.WriteLine();
        var client = new ChatClient(/*tls: Certificates.OfClient(), */address, port);
        Lines.Read(() => client.DisconnectAsync(), line => client.SendTextAsync(line), () => client.ConnectAsync(), client.DisconnectAndStop);
    }

    private class ChatClient : WsClient
    {
        private bool _stop;

        public ChatClient(/*tls: SslContext context, */string address, int port) : base(/*tls: context, */address, port) { }

        public void DisconnectAndStop()
        {
            _stop = true;
            CloseAsync(1000);
            while (IsConnected) Thread.Yield();
        }

        public override void OnWsConnecting(HttpRequest request)
        {
            request.SetBegin("GET", "/");
            request.SetHeader("Host", "localhost");
            request.SetHeader("Origin", "http://localhost");
            request.SetHeader("Upgrade", "websocket");
            request.SetHeader("Connection", "Upgrade");
            request.SetHeader("Sec-WebSocket-Key", Convert.ToBase64String(WsNonce));
            request.SetHeader("Sec-WebSocket-Protocol", "chat, superchat");
            request.SetHeader("Sec-WebSocket-Version", "13");
            request.SetBody();
        }

        public override void OnWsConnected(HttpResponse response)
        {
            Console.WriteLine($"Chat WebSocket client connected a new session with Id {Id}");
        }

        public override void OnWsDisconnected()
        {
            Console.WriteLine($"Chat WebSocket client disconnected a session with Id {Id}");
        }

        public override void OnWsReceived(byte[] buffer, long offset, long size)
        {
            Console.WriteLine($"Incoming: {Encoding.UTF8.GetString(buffer, (int)offset, (int)size)}");
        }

        protected override void OnDisconnected()
        {
            base.OnDisconnected();
            Console.WriteLine($"Chat WebSocket client disconnected a session with Id {Id}");
            Thread.Sleep(1000);
            if (!_stop) ConnectAsync();
        }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Chat WebSocket client caught an error with code {error}");
        }
    }
}
