using System.Collections.Concurrent;
using System.Diagnostics.Metrics;
using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Cryptography.X509Certificates;
using Whimbrel.Engines.Uring;
using Whimbrel.Linux;
using Whimbrel.Tls;

namespace Whimbrel.Conformance;

/// <summary>Instruments of native memory: they grow with connections, and return after these have ended.</summary>
[Trait("Runs", "alone")]
public sealed class NativeMemoryMetersTests : IDisposable
{
    private const int Clients = 100;

    private readonly ConcurrentQueue<(string Name, long Value, Dictionary<string, object?> Labels)> _seen = new();
    private readonly TaskCompletionSource _published = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly MeterListener _listener = new();

    private static CancellationToken Cancel => TestContext.Current.CancellationToken;

    public void Dispose() => _listener.Dispose();

    [Fact]
    public async Task Memory_of_TLS_connections_is_seen_and_returns_after_they_have_ended()
    {
        Assert.SkipUnless(OpenSslLibrary.IsUsable, $"TLS by OpenSSL is not available: {OpenSslLibrary.Refusal}");
        await using Engine engine = new(new EngineOptions { Loops = 2 });
        Server server = new(new ServerOptions
        {
            Engine = engine,
            EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
            Tls = new TlsOptions
            {
                Certificate = TlsCertificate.From(TestCertificates.Server),
                Provider = TlsProvider.OpenSsl
            },
        }, static () => new Echo());
        await server.StartAsync(Cancel);
        await ListenAsync();

        // Both sides load what they keep with the first connections.
        await EndAsync(await ConnectAsync(server, 4), engine);
        long before = Heap();
        List<SslStream> streams = await ConnectAsync(server, Clients);
        Assert.Equal(Clients, Of(engine, "whimbrel.loop.tls_connections"));
        long grown = Heap() - before;
        await EndAsync(streams, engine);
        Assert.SkipWhen(NativeHeap.Read() is null, "The C library of this system does not report its heap.");
        Assert.InRange(grown, Clients * 16 * 1024, long.MaxValue);
        await UntilAsync(() => Heap() - before < grown / 3);
        await server.StopAsync();
    }

    [Theory]
    [InlineData(EngineKind.Epoll)]
    [InlineData(EngineKind.Uring)]
    [InlineData(EngineKind.Portable)]
    public async Task Memory_of_an_engine_includes_large_receives_and_datagrams_and_ends_with_it(EngineKind kind)
    {
        Assert.SkipWhen(kind == EngineKind.Uring && !UringProbe.Here.IsOffered, UringProbe.Here.Reason);
        Assert.SkipWhen(kind == EngineKind.Epoll && !KernelProbe.HasEpoll, "This system has no epoll.");
        await using Engine engine = new(new EngineOptions { Kind = kind, Loops = 1 });
        Server server = new(
            new ServerOptions { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) },
            static () => new Collector());
        await server.StartAsync(Cancel);
        await ListenAsync();
        long idle = Of(engine, "whimbrel.loop.engine_memory");
        Assert.InRange(idle, 64 * 1024, 16 * 1024 * 1024);
        Assert.True(Of(engine, "whimbrel.loop.block_memory") >= 0);

        // The session keeps what it has until all is there, so the loop takes its large block.
        using Socket client = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        await client.ConnectAsync(server.EndPoint!, Cancel);
        for (int sent = 0; sent < Collector.Bytes;)
            sent += await client.SendAsync(new byte[Collector.Bytes - sent], Cancel);
        Assert.Equal(1, await client.ReceiveAsync(new byte[1], Cancel));
        await UntilAsync(() => Of(engine, "whimbrel.loop.engine_memory") == idle); // the large block is not needed
        if (kind != EngineKind.Portable)
        {
            await using DatagramSocket datagrams = new(
                new DatagramOptions { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) },
                static () => new Ignore());
            await datagrams.StartAsync(Cancel);
            Assert.InRange(Of(engine, "whimbrel.loop.engine_memory"), idle + (64 * 1024), long.MaxValue);
        }

        await server.StopAsync(TimeSpan.Zero);
        Loop loop = engine.GetLoop(0);
        await engine.StopAsync();
        Assert.Equal(0, loop.Counters.EngineBytes);
    }

    // ------------------------------------------------------------------ a listener

    private async Task ListenAsync()
    {
        _listener.InstrumentPublished = (instrument, listener) =>
        {
            if (instrument.Meter.Name != "Whimbrel") return;
            listener.EnableMeasurementEvents(instrument);
            if (instrument.Name == "whimbrel.native_heap.usage") _published.TrySetResult();
        };
        _listener.SetMeasurementEventCallback<long>((instrument, value, labels, _) =>
            _seen.Enqueue((instrument.Name, value, new Dictionary<string, object?>(labels.ToArray()))));
        _listener.Start();
        await _published.Task.WaitAsync(TimeSpan.FromSeconds(30), Cancel);
    }

    private long Of(Engine engine, string name) => Read().Where(m => m.Name == name
        && Equals(m.Labels["whimbrel.engine"], engine.KindName)).Sum(static m => m.Value);

    private long Heap() => Read().Where(static m => m.Name == "whimbrel.native_heap.usage"
        && Equals(m.Labels["whimbrel.heap.state"], "used")).Sum(static m => m.Value);

    private List<(string Name, long Value, Dictionary<string, object?> Labels)> Read()
    {
        _seen.Clear();
        _listener.RecordObservableInstruments();
        return [.. _seen];
    }

    // ------------------------------------------------------------------ clients

    private static async Task<List<SslStream>> ConnectAsync(Server server, int count)
    {
        X509ChainPolicy policy =
            new() { TrustMode = X509ChainTrustMode.CustomRootTrust, RevocationMode = X509RevocationMode.NoCheck };
        policy.CustomTrustStore.AddRange(TestCertificates.Roots);
        List<SslStream> streams = [];
        for (int i = 0; i < count; i++)
        {
            Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
            await socket.ConnectAsync(server.EndPoint!, Cancel);
            SslStream stream = new(new NetworkStream(socket, ownsSocket: true));
            streams.Add(stream);
            await stream.AuthenticateAsClientAsync(new SslClientAuthenticationOptions
            {
                TargetHost = "chat.test",
                CertificateChainPolicy = policy,
                AllowTlsResume = false
            }, Cancel);
            await stream.WriteAsync("echo"u8.ToArray(), Cancel);
            await stream.ReadExactlyAsync(new byte[4], Cancel);
        }

        return streams;
    }

    private async Task EndAsync(List<SslStream> streams, Engine engine)
    {
        foreach (SslStream stream in streams) await stream.DisposeAsync();
        await UntilAsync(() => Of(engine, "whimbrel.loop.tls_connections") == 0);
    }

    private static async Task UntilAsync(Func<bool> isSo)
    {
        using CancellationTokenSource end = CancellationTokenSource.CreateLinkedTokenSource(Cancel);
        end.CancelAfter(TimeSpan.FromSeconds(60));
        while (!isSo()) await Task.Delay(20, end.Token); // tidy: waits because memory changes without an event
    }

    private sealed class Echo : Session
    {
        protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);
    }

    private sealed class Collector : Session
    {
        internal const int Bytes = 512 * 1024;

        protected override int OnData(ReadOnlySpan<byte> data)
        {
            if (data.Length < Bytes) return 0;
            Send("."u8);
            return data.Length;
        }
    }

    private sealed class Ignore : DatagramHandler;
}
