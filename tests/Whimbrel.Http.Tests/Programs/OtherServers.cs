using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Text.RegularExpressions;

namespace Whimbrel.Http.Tests.Programs;

/// <summary>nginx, Apache, HAProxy and lighttpd as reverse proxies for a backend that accepts everything.</summary>
internal static class OtherServers
{
    private const string Modules = "/usr/lib/apache2/modules";

    internal static readonly string[] Names = ["nginx", "apache2", "haproxy", "lighttpd"];

    /// <summary>Version that the program reports.</summary>
    internal static async Task<string> VersionAsync(string name)
    {
        string said = await RealProgram.RunAsync(name, "-v");
        return Regex.Match(said, @"\d+\.\d+\.\d+").Value;
    }

    internal static Task<RealProgram> StartAsync(string name, int port, int backend) =>
        RealProgram.ServeAsync(name, port, directory =>
        {
            string file = Path.Combine(directory, "conf");
            (string text, string[] arguments) = name switch
            {
                "nginx" => (Nginx(directory, port, $"location / {{ proxy_pass http://127.0.0.1:{backend}; "
                    + $"proxy_http_version 1.1; proxy_ignore_client_abort on; }}"),
                    (string[])["-p", directory, "-e", "stderr", "-c", file]),
                "apache2" => (Apache(directory, port, backend), ["-DFOREGROUND", "-f", file]),
                "haproxy" => ($"""
                    defaults
                      mode http
                      timeout connect 20s
                      timeout client 20s
                      timeout server 20s
                      option http-buffer-request
                    frontend in
                      bind 127.0.0.1:{port}
                      default_backend out
                    backend out
                      server one 127.0.0.1:{backend}

                    """, ["-db", "-f", file]),
                _ => ($"""
                    server.document-root = "{directory}"
                    server.bind = "127.0.0.1"
                    server.port = {port}
                    server.modules = ("mod_proxy")
                    proxy.server = ("" => (("host" => "127.0.0.1", "port" => {backend})))

                    """, ["-D", "-f", file]),
            };
            File.WriteAllText(file, text);
            return arguments;
        });

    /// <summary>An nginx configuration (foreground, single process) with these directives inside its server
    /// block.</summary>
    internal static string Nginx(string directory, int port, string inside, string outside = "") => $$"""
        daemon off;
        master_process off;
        pid {{directory}}/pid;
        error_log stderr error;
        events { worker_connections 512; }
        http {
          access_log off;
          client_body_temp_path {{directory}}/1; proxy_temp_path {{directory}}/2; fastcgi_temp_path {{directory}}/3; uwsgi_temp_path {{directory}}/4; scgi_temp_path {{directory}}/5;
          {{outside}}
          server { listen 127.0.0.1:{{port}}; {{inside}} }
        }

        """;

    private static string Apache(string directory, int port, int backend) => $"""
        ServerRoot {directory}
        ServerName localhost
        Listen 127.0.0.1:{port}
        PidFile {directory}/pid
        DefaultRuntimeDir {directory}
        ErrorLog /dev/stderr
        User www-data
        Group www-data
        LoadModule mpm_event_module {Modules}/mod_mpm_event.so
        LoadModule authz_core_module {Modules}/mod_authz_core.so
        LoadModule proxy_module {Modules}/mod_proxy.so
        LoadModule proxy_http_module {Modules}/mod_proxy_http.so
        ProxyPass / http://127.0.0.1:{backend}/ disablereuse=on

        """;

    /// <summary>Backend of the proxies: responds 200 to every request.</summary>
    internal sealed class Backend : IDisposable
    {
        private readonly TcpListener _listener = new(IPAddress.Loopback, 0);
        private readonly Task _accepting;

        internal Backend()
        {
            _listener.Start(512);
            _accepting = AcceptAsync();
        }

        internal int Port => ((IPEndPoint)_listener.LocalEndpoint).Port;

        private async Task AcceptAsync()
        {
            while (true)
            {
                try
                {
                    _ = ServeAsync(await _listener.AcceptSocketAsync());
                }
                catch (Exception e) when (e is SocketException or ObjectDisposedException)
                {
                    return;
                }
            }
        }

        private static async Task ServeAsync(Socket socket)
        {
            using Socket owned = socket;
            byte[] buffer = new byte[65536];
            try
            {
                // Reads the whole request, because a proxy that streams a body may detect an error at its end.
                int length = 0;
                bool isAsked = false;
                while (!IsWhole(buffer.AsSpan(0, length)))
                {
                    int count = await socket.ReceiveAsync(buffer.AsMemory(length));
                    if (count == 0) return;
                    length += count;
                    // Apache sends Expect: 100-continue where its client has.
                    if (!isAsked && buffer.AsSpan(0, length).IndexOf("100-"u8) >= 0)
                    {
                        isAsked = true;
                        await socket.SendAsync("HTTP/1.1 100 Continue\r\n\r\n"u8.ToArray());
                    }
                }

                await socket.SendAsync(
                    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"u8.ToArray());
                socket.Shutdown(SocketShutdown.Send);
                while (await socket.ReceiveAsync(buffer) > 0)
                {
                }
            }
            catch (SocketException)
            {
                // The proxy has closed the connection.
            }
        }

        private static bool IsWhole(ReadOnlySpan<byte> message)
        {
            int end = message.IndexOf("\r\n\r\n"u8);
            if (end < 0) return false;
            string head = Encoding.Latin1.GetString(message[..end]);
            if (head.Contains("\r\nTransfer-Encoding:", StringComparison.OrdinalIgnoreCase))
                return message[(end + 4)..].EndsWith("\r\n\r\n"u8);
            Match length = Regex.Match(head, @"\r\nContent-Length: *(\d+)", RegexOptions.IgnoreCase);
            return !length.Success
                || message.Length - end - 4 >= int.Parse(length.Groups[1].Value, CultureInfo.InvariantCulture);
        }

        public void Dispose()
        {
            _listener.Dispose();
            _accepting.Wait(RealProgram.Patience);
        }
    }
}
