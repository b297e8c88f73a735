using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Authentication;
using System.Security.Cryptography.X509Certificates;

namespace Whimbrel.Bench.Peers;

/// <summary><see cref="SslStream"/> on a <see cref="Socket"/> per connection: TLS as .NET's documentation shows it,
/// with shared objects created once.</summary>
internal static class SslStreamEcho
{
    public static async Task RunAsync(int port, X509Certificate2 certificate, Action<IPEndPoint> tell)
    {
        var options = new SslServerAuthenticationOptions
        {
            ServerCertificateContext = SslStreamCertificateContext.Create(certificate, null, offline: true),
            EnabledSslProtocols = SslProtocols.Tls12 | SslProtocols.Tls13,
        };
        using var listener = SocketAsyncEcho.Listen(port);
        tell((IPEndPoint)listener.LocalEndPoint!);
        while (true)
        {
            // Not awaited: the loop owns its socket and ends by itself.
            _ = EchoAsync(await listener.AcceptAsync(), options);
        }
    }

    private static async Task EchoAsync(Socket socket, SslServerAuthenticationOptions options)
    {
        socket.NoDelay = true;
        await using var stream = new SslStream(new NetworkStream(socket, ownsSocket: true));
        try
        {
            await stream.AuthenticateAsServerAsync(options);
            var buffer = GC.AllocateUninitializedArray<byte>(SocketAsyncEcho.BufferSize, pinned: true);
            int received;
            while ((received = await stream.ReadAsync(buffer.AsMemory())) > 0)
            {
                await stream.WriteAsync(buffer.AsMemory(0, received));
            }

            await stream.ShutdownAsync();
        }
        catch (Exception e) when (e is IOException or AuthenticationException or SocketException)
        {
            // Reset by the client, or closed while data was being sent: the connection has ended.
        }
    }
}
