using System;
using System.Collections.Concurrent;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using NetCoreServer;
using OldPrograms.Host;

namespace OldPrograms.Examples;

/// A store of texts by their key: PUT, GET and DELETE of /api/cache?key=..., GET of /api/cache for all. Static pages of
/// a folder beside it.
internal static class HttpsServer
{
    private static readonly ConcurrentDictionary<string, string> _store = new();

    private static void Main(string[] args)
    {
        int port = args.Length > 0 ? int.Parse(args[0]) : 8080;
        string www = args.Length > 1 ? args[1] : "../../../../../www/api";
        Console.WriteLine($"Server port: {port}");
        Console.WriteLine($"Server static content path: {www}");
        Console.WriteLine();
        var server = new StoreServer(Certificates.OfServer(), IPAddress.Any, port);
        server.AddStaticContent(www, "/api");
        Keyboard.Serve(server.Start, server.Restart, server.Stop);
    }

    private class StoreServer : NetCoreServer.HttpsServer
    {
        public StoreServer(SslContext context, IPAddress address, int port) : base(context, address, port) { }

        protected override SslSession CreateSession() { return new StoreSession(this); }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"HTTP server caught an error with code {error}");
        }
    }

    private class StoreSession : HttpsSession
    {
        public StoreSession(NetCoreServer.HttpsServer server) : base(server) { }

        protected override void OnReceivedRequest(HttpRequest request)
        {
            Console.WriteLine(request);
            string key = KeyOf(request.Url);
            switch (request.Method)
            {
                case "HEAD":
                    SendResponseAsync(Response.MakeHeadResponse());
                    break;
                case "GET" when string.IsNullOrEmpty(key):
                    SendResponseAsync(Response.MakeGetResponse(string.Join('\n', _store.OrderBy(p => p.Key).Select(p => $"{p.Key}={p.Value}")), "application/text; charset=UTF-8"));
                    break;
                case "GET" when _store.TryGetValue(key, out string value):
                    SendResponseAsync(Response.MakeGetResponse(value));
                    break;
                case "POST":
                case "PUT":
                    _store[key] = request.Body;
                    SendResponseAsync(Response.MakeOkResponse());
                    break;
                case "DELETE" when _store.TryRemove(key, out string deleted):
                    SendResponseAsync(Response.MakeGetResponse(deleted));
                    break;
                case "GET":
                case "DELETE":
                    SendResponseAsync(Response.MakeErrorResponse(404, "Required cache value was not found for the key: " + key));
                    break;
                case "OPTIONS":
                    SendResponseAsync(Response.MakeOptionsResponse());
                    break;
                case "TRACE":
                    SendResponseAsync(Response.MakeTraceResponse(request.Cache.AsSpan()));
                    break;
                default:
                    SendResponseAsync(Response.MakeErrorResponse("Unsupported HTTP method: " + request.Method));
                    break;
            }
        }

        protected override void OnReceivedRequestError(HttpRequest request, string error)
        {
            Console.WriteLine($"Request error: {error}");
        }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"HTTP session caught an error: {error}");
        }

        private static string KeyOf(string url)
        {
            int at = url.IndexOf("key=", StringComparison.Ordinal);
            return at < 0 ? "" : Uri.UnescapeDataString(url[(at + 4)..]);
        }
    }
}
