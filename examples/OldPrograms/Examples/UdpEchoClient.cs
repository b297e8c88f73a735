using System;
using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Threading;
using OldPrograms.Host;
using UdpClient = NetCoreServer.UdpClient;

namespace OldPrograms.Examples;

/// Sends typed lines and prints received data.
internal static class UdpEchoClient
{
    private static void Main(string[] args)
    {
        string address = args.Length > 0 ? args[0] : "127.0.0.1";
        int port = args.Length > 1 ? int.Parse(args[1]) : 3333;
        Console.WriteLine($"UDP server address: {address}");
        Console.WriteLine($"UDP server port: {port}");
        Console.WriteLine();
        var client = new EchoClient(address, port);
        Lines.Read(() => client.Disconnect(), line => client.Send(line), () => client.Connect(), client.DisconnectAndStop);
    }

    private class EchoClient : UdpClient
    {
        private bool _stop;

        public EchoClient(string address, int port) : base(address, port) { }

        public void DisconnectAndStop()
        {
            _stop = true;
            Disconnect();
            while (IsConnected) Thread.Yield();
        }

        protected override void OnConnected()
        {
            Console.WriteLine($"Echo UDP client connected a new session with Id {Id}");
            ReceiveAsync();
        }

        protected override void OnDisconnected()
        {
            Console.WriteLine($"Echo UDP client disconnected a session with Id {Id}");
            Thread.Sleep(1000);
            if (!_stop) Connect();
        }

        protected override void OnReceived(EndPoint endpoint, byte[] buffer, long offset, long size)
        {
            Console.WriteLine("Incoming: " + Encoding.UTF8.GetString(buffer, (int)offset, (int)size));
            ReceiveAsync();
        }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Echo UDP client caught an error with code {error}");
        }
    }
}
