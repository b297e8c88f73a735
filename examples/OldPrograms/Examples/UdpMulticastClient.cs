using System;
using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Threading;
using OldPrograms.Host;
using UdpClient = NetCoreServer.UdpClient;

namespace OldPrograms.Examples;

/// A member of a group, which prints received data.
internal static class UdpMulticastClient
{
    private static void Main(string[] args)
    {
        string listen = args.Length > 0 ? args[0] : "0.0.0.0";
        string group = args.Length > 1 ? args[1] : "239.255.0.1";
        int port = args.Length > 2 ? int.Parse(args[2]) : 3334;
        Console.WriteLine($"UDP listen address: {listen}");
        Console.WriteLine($"UDP multicast address: {group}");
        Console.WriteLine($"UDP multicast port: {port}");
        Console.WriteLine();
        var client = new MulticastClient(listen, port) { Multicast = group };
        client.SetupMulticast(true);
        Lines.Read(() => client.Disconnect(), null, () => client.Connect(), client.DisconnectAndStop);
    }

    private class MulticastClient : UdpClient
    {
        public string Multicast;
        private bool _stop;

        public MulticastClient(string address, int port) : base(address, port) { }

        public void DisconnectAndStop()
        {
            _stop = true;
            Disconnect();
            while (IsConnected) Thread.Yield();
        }

        protected override void OnConnected()
        {
            Console.WriteLine($"Multicast UDP client connected a new session with Id {Id}");
            JoinMulticastGroup(Multicast);
            ReceiveAsync();
        }

        protected override void OnDisconnected()
        {
            Console.WriteLine($"Multicast UDP client disconnected a session with Id {Id}");
            Thread.Sleep(1000);
            if (!_stop) Connect();
        }

        protected override void OnJoinedMulticastGroup(IPAddress address)
        {
            Console.WriteLine($"Multicast UDP client joined the group {address}");
        }

        protected override void OnReceived(EndPoint endpoint, byte[] buffer, long offset, long size)
        {
            Console.WriteLine("Incoming: " + Encoding.UTF8.GetString(buffer, (int)offset, (int)size));
            ReceiveAsync();
        }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Multicast UDP client caught an error with code {error}");
        }
    }
}
