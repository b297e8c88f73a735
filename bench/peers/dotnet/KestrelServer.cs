using System.Net;
using System.Security.Cryptography.X509Certificates;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Connections;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Hosting.Server.Features;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace Whimbrel.Bench.Peers;

/// <summary>Kestrel's connection handler: the same transport and pipes that carry ASP.NET Core, without HTTP.</summary>
internal static class KestrelServer
{
    public static Task EchoAsync(int port, bool inline, Action<IPEndPoint> tell) =>
        RunAsync<EchoHandler>(port, inline, tell);

    public static Task TlsEchoAsync(int port, X509Certificate2 certificate, Action<IPEndPoint> tell) =>
        RunAsync<EchoHandler>(port, inline: false, tell, certificate);

    public static Task PushAsync(int port, bool inline, Action<IPEndPoint> tell) =>
        RunAsync<PushHandler>(port, inline, tell);

    public static Task GroupsAsync(int port, bool inline, Action<IPEndPoint> tell) =>
        RunAsync<GroupsHandler>(port, inline, tell);

    private static async Task RunAsync<THandler>(int port, bool inline, Action<IPEndPoint> tell,
        X509Certificate2? certificate = null)
        where THandler : ConnectionHandler
    {
        var builder = WebApplication.CreateSlimBuilder();
        builder.Logging.ClearProviders();
        builder.Services.AddSingleton<PushLog>(); // created when the first push client connects
        builder.Services.AddSingleton<GroupRegister>();
        builder.WebHost.UseSockets(sockets => sockets.UnsafePreferInlineScheduling = inline);
        if (certificate is not null)
        {
            builder.WebHost.UseKestrelHttpsConfiguration();
        }

        builder.WebHost.ConfigureKestrel(kestrel => kestrel.Listen(IPAddress.Loopback, port, listener =>
        {
            if (certificate is not null)
            {
                listener.UseHttps(certificate);
            }

            listener.UseConnectionHandler<THandler>();
        }));

        await using var app = builder.Build();
        await app.StartAsync();
        var addresses =
            app.Services.GetRequiredService<IServer>().Features.GetRequiredFeature<IServerAddressesFeature>();
        tell(new IPEndPoint(IPAddress.Loopback, new Uri(addresses.Addresses.First()).Port));
        await app.WaitForShutdownAsync();
    }

    private sealed class EchoHandler : ConnectionHandler
    {
        public override async Task OnConnectedAsync(ConnectionContext connection)
        {
            var input = connection.Transport.Input;
            var output = connection.Transport.Output;
            try
            {
                while (true)
                {
                    var result = await input.ReadAsync();
                    foreach (var segment in result.Buffer)
                    {
                        // Copies into the pipe; the flush below sends everything.
                        var room = output.GetMemory(segment.Length);
                        segment.CopyTo(room);
                        output.Advance(segment.Length);
                    }

                    var flushed = await output.FlushAsync();
                    input.AdvanceTo(result.Buffer.End);
                    if (result.IsCompleted || flushed.IsCompleted)
                    {
                        return;
                    }
                }
            }
            catch (ConnectionResetException)
            {
                // The client disconnected; the connection ends either way.
            }
        }
    }

    private sealed class GroupsHandler(GroupRegister register) : ConnectionHandler
    {
        public override async Task OnConnectedAsync(ConnectionContext connection)
        {
            var input = connection.Transport.Input;
            var member = new GroupMember(connection.Transport.Output);
            try
            {
                while (true)
                {
                    var result = await input.ReadAsync();
                    var rest = result.Buffer;
                    while (rest.Length >= GroupRegister.MessageSize)
                    {
                        register.Take(member, rest.Slice(0, GroupRegister.MessageSize));
                        rest = rest.Slice(GroupRegister.MessageSize);
                    }

                    input.AdvanceTo(rest.Start, rest.End);
                    if (result.IsCompleted)
                    {
                        return;
                    }
                }
            }
            catch (ConnectionResetException)
            {
                // The client disconnected; the connection ends either way.
            }
            finally
            {
                GroupRegister.Leave(member);
            }
        }
    }

    private sealed class PushHandler(PushLog log) : ConnectionHandler
    {
        public override async Task OnConnectedAsync(ConnectionContext connection)
        {
            var output = connection.Transport.Output;
            try
            {
                await log.ServeAsync(async bytes => !(await output.WriteAsync(bytes)).IsCompleted);
            }
            catch (ConnectionResetException)
            {
                // The client has disconnected, which is the normal end of a push.
            }
        }
    }
}
