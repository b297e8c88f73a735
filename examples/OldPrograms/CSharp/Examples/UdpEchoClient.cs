using System;
using System.Text;
using System.Threading;
using CSharpServer;
using OldPrograms.Host;

namespace OldPrograms.CSharp.Examples;

/// Sends typed lines and prints received data.
internal static class UdpEchoClient
{
    private static void Main(string[] args)
    {
        string address = args.Length > 0 ? args[0] : "127.0.0.1";
        int port = args.Length > 1 ? int.Parse(args[1]) : 3333;
        Console.WriteLine($"UDP server address: {address}");
        Console.WriteLine($"UDP server port: {port}");
        Asio.Run(service =>
        {
            var client = new EchoClient(service, address, port);
            Lines.Read(() => client.DisconnectAsync(), line => client.SendSync(line), () => client.ConnectAsync(), client.DisconnectAndStop);
        });
    }

    private class EchoClient : UdpClient
    {
        private bool _stop;

        public EchoClient(Service service, string address, int port) : base(service, address, port) { }

        public void DisconnectAndStop()
        {
            _stop = true;
            DisconnectAsync();
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
            if (!_stop) ConnectAsync();
        }

        protected override void OnReceived(UdpEndpoint endpoint, byte[] buffer, long size)
        {
            Console.WriteLine("Incoming: " + Encoding.UTF8.GetString(buffer, 0, (int)size));
            ReceiveAsync();
        }

        protected override void OnError(int error, string category, string message)
        {
            Console.WriteLine($"Echo UDP client caught an error with code {error} and category '{category}': {message}");
        }
    }
}
