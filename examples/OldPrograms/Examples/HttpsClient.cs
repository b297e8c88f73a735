using System;
using System.Linq;
using System.Net;
using NetCoreServer;
using OldPrograms.Host;

namespace OldPrograms.Examples;

/// Lines as "GET /api/cache?key=a" and "PUT /api/cache?key=a text": each is sent, and its response printed.
internal static class HttpsClient
{
    private static void Main(string[] args)
    {
        string address = args.Length > 0 ? args[0] : "localhost";
        int port = args.Length > 1 ? int.Parse(args[1]) : 8080;
        Console.WriteLine($"Server address: {address}");
        Console.WriteLine($"Server port: {port}");
        Console.WriteLine();
        var ip = Dns.GetHostAddresses(address).First(a => a.AddressFamily == System.Net.Sockets.AddressFamily.InterNetwork);
        var client = new HttpsClientEx(Certificates.OfClient(), ip, port);
        Console.WriteLine("Press Enter to stop the client or '!' to reconnect the client...");
        while (true)
        {
            string line = Console.ReadLine();
            if (string.IsNullOrEmpty(line)) break;
            if (line == "!")
            {
                Console.Write("Client reconnecting...");
                if (client.IsConnected) client.ReconnectAsync();
                else client.ConnectAsync();
                Console.WriteLine("Done!");
                continue;
            }

            string[] words = line.Split(' ', 3);
            string url = words.Length > 1 ? words[1] : "/", body = words.Length > 2 ? words[2] : "";
            try
            {
                var response = words[0].ToUpperInvariant() switch
                {
                    "HEAD" => client.SendHeadRequest(url).Result,
                    "GET" => client.SendGetRequest(url).Result,
                    "POST" => client.SendPostRequest(url, body).Result,
                    "PUT" => client.SendPutRequest(url, body).Result,
                    "DELETE" => client.SendDeleteRequest(url).Result,
                    "OPTIONS" => client.SendOptionsRequest(url).Result,
                    "TRACE" => client.SendTraceRequest(url).Result,
                    _ => null,
                };
                Console.WriteLine(response == null ? "Unknown HTTP method" : response.ToString());
            }
            catch (Exception e)
            {
                Console.WriteLine($"Error: {e.GetBaseException().Message}");
            }
        }

        Console.Write("Client disconnecting...");
        client.Disconnect();
        Console.WriteLine("Done!");
    }
}
