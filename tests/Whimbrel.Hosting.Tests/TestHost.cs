using System.Net;
using System.Net.Sockets;
using System.Text;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace Whimbrel.Hosting.Tests;

/// <summary>A real host with an in-memory configuration, one loop, and a list of all log lines.</summary>
internal sealed class TestHost : IAsyncDisposable
{
    internal static readonly TimeSpan Patience = TimeSpan.FromSeconds(60);

    private readonly IHost _host;
    private readonly IConfigurationRoot _configuration;
    private readonly List<TcpClient> _clients = [];

    internal TestHost(Action<IServiceCollection> configure, params (string Key, string? Value)[] settings)
    {
        HostApplicationBuilder builder = Host.CreateEmptyApplicationBuilder(new HostApplicationBuilderSettings());
        builder.Configuration.AddInMemoryCollection([new("Whimbrel:Loops", "1")]);
        builder.Configuration.AddInMemoryCollection(
            settings.Select(static s => new KeyValuePair<string, string?>(s.Key, s.Value)));
        builder.Logging.SetMinimumLevel(LogLevel.Trace).AddProvider(Log);
        builder.Services.Configure<HostOptions>(static o => o.ShutdownTimeout = Patience);
        configure(builder.Services);
        _configuration = builder.Configuration;
        _host = builder.Build();
    }

    internal TestLog Log { get; } = new();

    internal IServiceProvider Services => _host.Services;

    internal Server Server(string name = "Chat") => Services.GetRequiredKeyedService<Server>(name);

    internal Task StartAsync() => _host.StartAsync(TestContext.Current.CancellationToken);

    internal Task StopAsync(CancellationToken cancellationToken = default) => _host.StopAsync(cancellationToken);

    /// <summary>Lets all clients read to the end of the stream and close, because a closing server waits some seconds
    /// for clients that do not.</summary>
    internal async Task HangUpAsync()
    {
        byte[] rest = new byte[1024];
        foreach (TcpClient client in _clients)
        {
            try
            {
                while (await client.GetStream().ReadAsync(rest).AsTask().WaitAsync(Patience) > 0)
                {
                }
            }
            catch (IOException)
            {
                // The connection was reset.
            }

            client.Dispose();
        }

        _clients.Clear();
    }

    /// <summary>Changes keys, and raises the change token once.</summary>
    internal void Reload(params (string Key, string? Value)[] settings)
    {
        foreach ((string key, string? value) in settings) _configuration[key] = value;
        _configuration.Reload();
    }

    internal async Task<TcpClient> ConnectAsync(string name = "Chat")
    {
        TcpClient client = new();
        _clients.Add(client);
        await client.ConnectAsync((IPEndPoint)Server(name).EndPoint!, TestContext.Current.CancellationToken);
        return client;
    }

    /// <summary>Sends a text and reads this many bytes.</summary>
    internal static async Task<string> AskAsync(Stream stream, string text, int count)
    {
        await stream.WriteAsync(Encoding.UTF8.GetBytes(text), TestContext.Current.CancellationToken);
        byte[] answer = new byte[count];
        await stream.ReadExactlyAsync(answer, TestContext.Current.CancellationToken).AsTask().WaitAsync(Patience);
        return Encoding.UTF8.GetString(answer);
    }

    /// <summary>Polls a condition that other threads fulfil without an event.</summary>
    internal static async Task UntilAsync(Func<bool> condition, string what)
    {
        long began = Environment.TickCount64;
        while (!condition())
        {
            Assert.True(Environment.TickCount64 - began < Patience.TotalMilliseconds, $"waited in vain for {what}");
            await Task.Delay(1); // tidy: waits because a log and a counter raise no event
        }
    }

    public async ValueTask DisposeAsync()
    {
        foreach (TcpClient client in _clients) client.Dispose();
        await _host.StopAsync(new CancellationToken(canceled: true));
        _host.Dispose();
    }
}
