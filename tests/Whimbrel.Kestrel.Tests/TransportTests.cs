using System.Buffers;
using System.IO.Pipelines;
using System.Net;
using System.Net.Sockets;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Connections;
using Microsoft.AspNetCore.Connections.Features;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.Extensions.DependencyInjection;

namespace Whimbrel.Kestrel.Tests;

// The transport without Kestrel: listeners, connections of both kinds, their features and ends.
public sealed class TransportTests
{
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(60);

    private static CancellationToken Token => TestContext.Current.CancellationToken;

    [Fact]
    public async Task A_client_and_a_server_talk_by_connection_contexts()
    {
        await using ServiceProvider services = Services();
        await using IConnectionListener listener = await ListenAsync(services);
        await using ConnectionContext there = await services.GetRequiredService<IConnectionFactory>()
            .ConnectAsync(listener.EndPoint, Token);
        await using ConnectionContext here = (await listener.AcceptAsync(Token))!;
        Assert.NotEqual(here.ConnectionId, there.ConnectionId);
        Assert.Equal(here.LocalEndPoint, there.RemoteEndPoint);
        Assert.Equal(here.RemoteEndPoint, there.LocalEndPoint);

        await there.Transport.Output.WriteAsync("hello"u8.ToArray(), Token);
        ReadResult result = await here.Transport.Input.ReadAtLeastAsync(5, Token);
        Assert.Equal("hello"u8.ToArray(), result.Buffer.ToArray());
        here.Transport.Input.AdvanceTo(result.Buffer.End);

        // Half-close: the other direction continues, and is notified.
        await there.Transport.Output.CompleteAsync();
        result = await here.Transport.Input.ReadAsync(Token);
        Assert.True(result.IsCompleted);
        await UntilCancelledAsync(here.ConnectionClosed);
        await here.Transport.Output.WriteAsync("answer"u8.ToArray(), Token);
        result = await there.Transport.Input.ReadAtLeastAsync(6, Token);
        Assert.Equal("answer"u8.ToArray(), result.Buffer.ToArray());
    }

    [Fact]
    public async Task An_abort_gives_its_reason_here_and_a_reset_there()
    {
        await using ServiceProvider services = Services();
        await using IConnectionListener listener = await ListenAsync(services);
        await using ConnectionContext there = await services.GetRequiredService<IConnectionFactory>()
            .ConnectAsync(listener.EndPoint, Token);
        await using ConnectionContext here = (await listener.AcceptAsync(Token))!;
        ConnectionAbortedException why = new("on purpose");
        here.Abort(why);
        Assert.Same(why, await Assert.ThrowsAsync<ConnectionAbortedException>(
            async () => await here.Transport.Input.ReadAsync(Token)));
        await Assert.ThrowsAsync<ConnectionResetException>(async () => await there.Transport.Input.ReadAsync(Token));
        Assert.True((await there.Transport.Output.WriteAsync("x"u8.ToArray(), Token)).IsCompleted);
        await UntilCancelledAsync(here.ConnectionClosed);
        await UntilCancelledAsync(there.ConnectionClosed);
    }

    [Fact]
    public async Task Its_features_are_there_can_be_replaced_and_are_listed()
    {
        await using ServiceProvider services = Services();
        await using IConnectionListener listener = await ListenAsync(services);
        await using ConnectionContext there = await services.GetRequiredService<IConnectionFactory>()
            .ConnectAsync(listener.EndPoint, Token);
        IFeatureCollection features = there.Features;
        Assert.Equal(there.ConnectionId, features.Get<IConnectionIdFeature>()!.ConnectionId);
        Assert.Same(there.Transport, features.Get<IConnectionTransportFeature>()!.Transport);
        Assert.Same(there.Items, features.Get<IConnectionItemsFeature>()!.Items);
        Assert.Equal(there.ConnectionClosed, features.Get<IConnectionLifetimeFeature>()!.ConnectionClosed);
        Assert.Equal(there.LocalEndPoint, features.Get<IConnectionEndPointFeature>()!.LocalEndPoint);
        Assert.Equal(there.RemoteEndPoint, features.Get<IConnectionSocketFeature>()!.Socket.RemoteEndPoint);
        Assert.NotNull(features.Get<IMemoryPoolFeature>()!.MemoryPool);
        Assert.Null(features.Get<IConnectionUserFeature>());
        int before = features.Revision;
        Assert.Equal(7, features.Count());
        features.Set<IConnectionSocketFeature>(null);
        features.Set("anything");
        Assert.Null(features.Get<IConnectionSocketFeature>());
        Assert.Equal("anything", features[typeof(string)]);
        Assert.Equal(before + 2, features.Revision);
        Assert.Equal(7, features.Count());
    }

    [Fact]
    public async Task A_feature_that_is_set_again_replaces_the_last_one()
    {
        await using ServiceProvider services = Services();
        await using IConnectionListener listener = await ListenAsync(services);
        await using ConnectionContext there = await services.GetRequiredService<IConnectionFactory>()
            .ConnectAsync(listener.EndPoint, Token);
        IFeatureCollection features = there.Features;
        int before = features.Revision;
        features.Set("first");
        features.Set("second");
        Assert.Equal("second", features.Get<string>());
        features[typeof(string)] = "third";
        Assert.Equal("third", features.Get<string>());
        Assert.Equal(before + 3, features.Revision);
        Assert.Single(features, static pair => pair.Key == typeof(string));
        features.Set<string>(null);
        Assert.Null(features.Get<string>());
        Assert.DoesNotContain(features, static pair => pair.Key == typeof(string));
    }

    [Fact]
    public async Task Both_kinds_of_connections_end_when_they_are_disposed()
    {
        await using ServiceProvider services = Services();
        await using IConnectionListener listener = await ListenAsync(services);
        IConnectionFactory factory = services.GetRequiredService<IConnectionFactory>();
        ConnectionContext first = await factory.ConnectAsync(listener.EndPoint, Token);
        await using ConnectionContext its = (await listener.AcceptAsync(Token))!;
        await first.DisposeAsync();
        Assert.True((await its.Transport.Input.ReadAsync(Token).AsTask().WaitAsync(s_patience, Token)).IsCompleted);

        await using ConnectionContext second = await factory.ConnectAsync(listener.EndPoint, Token);
        ConnectionContext accepted = (await listener.AcceptAsync(Token))!;
        await accepted.DisposeAsync();
        Assert.True((await second.Transport.Input.ReadAsync(Token).AsTask().WaitAsync(s_patience, Token)).IsCompleted);
    }

    [Fact]
    public async Task The_end_of_a_listener_resets_what_nobody_accepted_and_ends_the_accepts()
    {
        await using ServiceProvider services = Services();
        IConnectionListener listener = await ListenAsync(services);
        using Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        await socket.ConnectAsync(listener.EndPoint, Token);
        await listener.DisposeAsync();
        SocketException e = await Assert.ThrowsAsync<SocketException>(
            async () => await socket.ReceiveAsync(new byte[1], Token).AsTask().WaitAsync(s_patience, Token));
        Assert.Equal(SocketError.ConnectionReset, e.SocketErrorCode);
        Assert.Null(await listener.AcceptAsync(Token).AsTask().WaitAsync(s_patience, Token));

        // Without a connection as well: an accept that waits ends.
        listener = await ListenAsync(services);
        ValueTask<ConnectionContext?> waiting = listener.AcceptAsync(Token);
        await listener.DisposeAsync();
        Assert.Null(await waiting.AsTask().WaitAsync(s_patience, Token));
        Assert.Null(await listener.AcceptAsync(Token).AsTask().WaitAsync(s_patience, Token));
    }

    [Fact]
    public async Task Connections_of_the_factory_have_the_drain_time_and_the_NoDelay_of_the_options()
    {
        using Socket peer = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        peer.ReceiveBufferSize = 4096;
        peer.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        peer.Listen();
        await using ServiceProvider services = new ServiceCollection().AddLogging()
            .AddWhimbrelTransport(static options => (options.NoDelay, options.DrainTimeout) =
                (false, TimeSpan.FromMilliseconds(10))).BuildServiceProvider();
        ConnectionContext here = await services.GetRequiredService<IConnectionFactory>()
            .ConnectAsync(peer.LocalEndPoint!, Token);
        using Socket accepted = await peer.AcceptAsync(Token);
        Assert.False(here.Features.Get<IConnectionSocketFeature>()!.Socket.NoDelay);
        // The peer reads nothing: what is queued cannot be sent, and the default drain time is 5 s.
        here.Transport.Output.Write(new byte[16 * 1024 * 1024]);
        await here.DisposeAsync();
        long before = Environment.TickCount64;
        await UntilCancelledAsync(here.ConnectionClosed);
        Assert.InRange(Environment.TickCount64 - before, 0, 4000);
    }

    [Fact]
    public async Task The_smallest_and_the_largest_values_of_the_options_are_accepted()
    {
        foreach ((int count, int bytes, TimeSpan drain) in (IEnumerable<(int, int, TimeSpan)>)
            [
                (1, 4096, TimeSpan.FromMilliseconds(10)), (65_535, 1024 * 1024 * 1024, TimeSpan.FromHours(1))
            ])
        {
            await using ServiceProvider services = new ServiceCollection().AddLogging()
                .AddWhimbrelTransport(options =>
                {
                    (options.Backlog, options.MaxReadBufferBytes, options.MaxWriteBufferBytes) = (count, bytes, bytes);
                    (options.MaxConnections, options.DrainTimeout) = (count == 1 ? 1 : 10_000_000, drain);
                }).BuildServiceProvider();
            await using IConnectionListener listener = await ListenAsync(services);
            using Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
            await socket.ConnectAsync(listener.EndPoint, Token);
            await using ConnectionContext here = (await listener.AcceptAsync(Token))!;
            await here.Transport.Output.WriteAsync("x"u8.ToArray(), Token);
            Assert.Equal(1, await socket.ReceiveAsync(new byte[10], Token));
        }
    }

    [Fact]
    public async Task After_an_unbind_what_was_connected_is_still_accepted_and_then_nothing()
    {
        await using ServiceProvider services = Services();
        await using IConnectionListener listener = await ListenAsync(services);
        using Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        await socket.ConnectAsync(listener.EndPoint, Token);
        await listener.UnbindAsync(Token);
        await using ConnectionContext? first = await listener.AcceptAsync(Token);
        Assert.NotNull(first);
        Assert.Null(await listener.AcceptAsync(Token));
        await first.Transport.Output.WriteAsync("still"u8.ToArray(), Token);
        Assert.Equal(5, await socket.ReceiveAsync(new byte[10], Token));
    }

    [Fact]
    public async Task Data_flushed_before_a_dispose_arrives_though_the_listener_is_disposed_at_once()
    {
        await using ServiceProvider services = Services();
        IConnectionListener listener = await ListenAsync(services);
        using Socket socket =
            new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { ReceiveBufferSize = 4096 };
        await socket.ConnectAsync(listener.EndPoint, Token);
        ConnectionContext here = (await listener.AcceptAsync(Token))!;
        byte[] data = new byte[2_000_000];
        SampleSite.Fill(data, 0);
        here.Transport.Output.Write(data);
        await here.DisposeAsync();
        Task disposing = listener.DisposeAsync().AsTask();
        using NetworkStream stream = new(socket);
        Assert.Equal((data.Length, true), await SampleSite.CheckAsync(stream));
        await disposing.WaitAsync(s_patience, Token);
    }

    [Fact]
    public async Task A_site_is_served_on_a_listening_socket_that_is_given_by_its_handle()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Sockets of other processes are used on Linux only.");
        using Socket owner = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        owner.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        owner.Listen();
        WebApplicationBuilder builder = WebApplication.CreateSlimBuilder();
        builder.WebHost.UseWhimbrel().ConfigureKestrel(o => o.ListenHandle((ulong)owner.Handle));
        await using WebApplication site = builder.Build();
        site.MapGet("/", static () => "by handle");
        await site.StartAsync(Token);
        using HttpClient client = new();
        Assert.Equal("by handle", await client.GetStringAsync(new Uri($"http://{owner.LocalEndPoint}/"), Token));
        await site.StopAsync(Token);
        // Still listening: the next process finds the waiting connection.
        using Socket late = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        await late.ConnectAsync(owner.LocalEndPoint!, Token);
        using Socket accepted = await owner.AcceptAsync(Token);
    }

    [Fact]
    public async Task A_new_process_takes_the_sockets_of_Kestrel_and_the_old_one_accepts_no_longer()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Upgrades of a process need Linux.");
        string path = Path.Combine(Path.GetTempPath(), $"whimbrel-{Guid.NewGuid():n}");
        await using ProcessUpgrade first = new(path), second = new(path);
        await using WebApplication old = await StartAsync(first, "old");
        await first.ReadyAsync(Token);
        string at = old.Urls.Single();
        using HttpClient kept = new(), client = new();
        Assert.Equal("old", await kept.GetStringAsync(new Uri(at), Token));
        await using WebApplication fresh = await StartAsync(second, "fresh");
        Assert.Equal(at, fresh.Urls.Single());
        await second.ReadyAsync(Token);
        await first.Replaced.WaitAsync(s_patience, Token);
        // A connection that is open stays with the old process, and a new one goes to the new one.
        Assert.Equal("old", await kept.GetStringAsync(new Uri(at), Token));
        Assert.Equal("fresh", await client.GetStringAsync(new Uri(at), Token));
        await old.StopAsync(Token);
        Assert.Equal("fresh", await kept.GetStringAsync(new Uri(at), Token));

        static async Task<WebApplication> StartAsync(ProcessUpgrade upgrade, string answer)
        {
            WebApplicationBuilder builder = WebApplication.CreateSlimBuilder();
            builder.WebHost.UseWhimbrel().UseUrls("http://127.0.0.1:0");
            builder.Services.AddSingleton(upgrade);
            WebApplication site = builder.Build();
            site.MapGet("/", () => answer);
            await site.StartAsync(Token);
            return site;
        }
    }

    [Fact]
    public async Task End_points_of_other_kinds_are_refused_with_a_reason()
    {
        await using ServiceProvider services = Services();
        IConnectionListenerFactory factory = services.GetRequiredService<IConnectionListenerFactory>();
        NotSupportedException e = await Assert.ThrowsAsync<NotSupportedException>(
            async () => await factory.BindAsync(new FileHandleEndPoint(999_999, FileHandleType.Auto), Token));
        Assert.Contains("handle 999999: Descriptor 999999 is not open", e.Message, StringComparison.Ordinal);
        e = await Assert.ThrowsAsync<NotSupportedException>(
            async () => await factory.BindAsync(new FileHandleEndPoint(5, FileHandleType.Pipe), Token));
        Assert.Contains("is a pipe", e.Message, StringComparison.Ordinal);
        await Assert.ThrowsAsync<NotSupportedException>(
            async () => await factory.BindAsync(new DnsEndPoint("localhost", 0), Token));
        Assert.False(((IConnectionListenerFactorySelector)factory).CanBind(new DnsEndPoint("localhost", 0)));
    }

    [Fact]
    public async Task Mistakes_in_the_options_are_reported_at_once_by_their_names_here()
    {
        await using ServiceProvider services = new ServiceCollection().AddLogging()
            .AddWhimbrelTransport(static options =>
            {
                (options.Backlog, options.MaxConnections, options.MaxReadBufferBytes, options.MaxWriteBufferBytes) =
                    (0, -1, 5, 1);
                options.DrainTimeout = TimeSpan.Zero;
                options.Scheduling = (Scheduling)7;
            }).BuildServiceProvider();
        string said = (await Assert.ThrowsAsync<ArgumentException>(async () => await ListenAsync(services))).Message;
        Assert.Equal(
            "UseWhimbrel, WhimbrelTransportOptions: Scheduling = 7, allowed ThreadPool and Inline; Backlog = 0, "
            + "allowed 1 to 65535; MaxConnections = -1, allowed 1 to 10000000; "
            + "MaxReadBufferBytes = 5, allowed 4096 to 1073741824; MaxWriteBufferBytes = 1, allowed 4096 to "
            + "1073741824; DrainTimeout = 00:00:00, allowed 00:00:00.0100000 to 01:00:00.",
            said);
    }

    [Fact]
    public async Task HttpClient_connects_by_Whimbrel_in_one_line()
    {
        await using SampleSite site = await SampleSite.StartAsync("pool");
        using SocketsHttpHandler handler = new()
        {
            ConnectCallback = async (context, cancellation) =>
                await ConnectionStream.ConnectAsync(new ClientOptions { EndPoint = context.DnsEndPoint }, cancellation)
        };
        using HttpClient client = new(handler);
        Assert.Equal("Hello, World!", await client.GetStringAsync(new Uri(site.Plain, "/plaintext"), Token));
    }

    private static ServiceProvider Services() => new ServiceCollection().AddLogging()
        .AddWhimbrelTransport(static options => options.EngineOptions = new EngineOptions { Loops = 1 })
        .BuildServiceProvider();

    private static async Task<IConnectionListener> ListenAsync(ServiceProvider services) =>
        await services.GetRequiredService<IConnectionListenerFactory>()
            .BindAsync(new IPEndPoint(IPAddress.Loopback, 0), Token);

    private static async Task UntilCancelledAsync(CancellationToken token)
    {
        TaskCompletionSource cancelled = new(TaskCreationOptions.RunContinuationsAsynchronously);
        using CancellationTokenRegistration told = token.Register(cancelled.SetResult);
        await cancelled.Task.WaitAsync(s_patience, Token);
    }
}
