using System;
using System.Net;
using System.Net.Sockets;
using NetCoreServer;
using OldPrograms.Host;

namespace OldPrograms.Performance;

/// Responds to TRACE with the request.
internal static class HttpTraceServer
{
    private static void Main(string[] args)
    {
        int port = new Options(args).Number("port", 8080);
        Console.WriteLine($"Server port: {port}");
        Console.WriteLine();
        var server = new TraceServer(/*tls: Certificates.OfServer(), */IPAddress.Any, port);
        Keyboard.Serve(server.Start, server.Restart, server.Stop);
    }

    private class TraceServer : HttpServer
    {
        public TraceServer(/*tls: SslContext context, */IPAddress address, int port) : base(/*tls: context, */address, port) { }

        protected override TcpSession CreateSession() { return new TraceSession(this); }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Server caught an error with code {error}");
        }
    }

    private class TraceSession : HttpSession
    {
        public TraceSession(HttpServer server) : base(server) { }

        protected override void OnReceivedRequest(HttpRequest request)
        {
            if (request.Method == "TRACE") SendResponseAsync(Response.MakeTraceResponse(request.Cache.AsSpan()));
            else SendResponseAsync(Response.MakeErrorResponse("Unsupported HTTP method: " + request.Method));
        }

        protected override void OnReceivedRequestError(HttpRequest request, string error)
        {
            Console.WriteLine($"Request error: {error}");
        }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Session caught an error with code {error}");
        }
    }
}
