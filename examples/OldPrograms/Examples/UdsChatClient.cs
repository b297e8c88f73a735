using System;
using System.IO;
using System.Net.Sockets;
using System.Text;
using System.Threading;
using NetCoreServer;
using OldPrograms.Host;

namespace OldPrograms.Examples;

/// A client of the chat. When the server disconnects, it reconnects.
internal static class UdsChatClient
{
    private static void Main(string[] args)
    {
        string path = args.Length > 0 ? args[0] : Path.Combine(Path.GetTempPath(), "chat.sock");
        Console.WriteLine($"UDS server path: {path}");
        Console.WriteLine();
        var client = new ChatClient(path);
        Lines.Read(() => client.DisconnectAsync(), line => client.SendAsync(line), () => client.ConnectAsync(), client.DisconnectAndStop);
    }

    private class ChatClient : UdsClient
    {
        private bool _stop;

        public ChatClient(string path) : base(path) { }

        public void DisconnectAndStop()
        {
            _stop = true;
            DisconnectAsync();
            while (IsConnected) Thread.Yield();
        }

        protected override void OnConnected()
        {
            Console.WriteLine($"Chat UDS client connected a new session with Id {Id}");
        }

        protected override void OnDisconnected()
        {
            Console.WriteLine($"Chat UDS client disconnected a session with Id {Id}");
            Thread.Sleep(1000);
            if (!_stop) ConnectAsync();
        }

        protected override void OnReceived(byte[] buffer, long offset, long size)
        {
            Console.WriteLine("Incoming: " + Encoding.UTF8.GetString(buffer, (int)offset, (int)size));
        }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Chat UDS client caught an error with code {error}");
        }
    }
}
