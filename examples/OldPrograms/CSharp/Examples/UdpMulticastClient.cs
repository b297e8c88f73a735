using System;
using System.Text;
using System.Threading;
using CSharpServer;
using OldPrograms.Host;

namespace OldPrograms.CSharp.Examples;

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
        Asio.Run(service =>
        {
            var client = new MulticastClient(service, listen, group, port);
            client.SetupMulticast(true);
            Lines.Read(() => client.DisconnectAsync(), null, () => client.ConnectAsync(), client.DisconnectAndStop);
        });
    }

    private class MulticastClient : UdpClient
    {
        private readonly string Multicast;
        private bool _stop;

        public MulticastClient(Service service, string address, string multicast, int port) : base(service, address, port) { Multicast = multicast; }

        public void DisconnectAndStop()
        {
            _stop = true;
            DisconnectAsync();
            while (IsConnected) Thread.Yield();
        }

        protected override void OnConnected()
        {
            Console.WriteLine($"Multicast UDP client connected a new session with Id {Id}");
            JoinMulticastGroupAsync(Multicast);
            ReceiveAsync();
        }

        protected override void OnDisconnected()
        {
            Console.WriteLine($"Multicast UDP client disconnected a session with Id {Id}");
            Thread.Sleep(1000);
            if (!_stop) ConnectAsync();
        }

        protected override void OnJoinedMulticastGroup(string address)
        {
            Console.WriteLine($"Multicast UDP client joined the group {address}");
        }

        protected override void OnReceived(UdpEndpoint endpoint, byte[] buffer, long size)
        {
            Console.WriteLine("Incoming: " + Encoding.UTF8.GetString(buffer, 0, (int)size));
            ReceiveAsync();
        }

        protected override void OnError(int error, string category, string message)
        {
            Console.WriteLine($"Multicast UDP client caught an error with code {error} and category '{category}': {message}");
        }
    }
}
