using System.Net;
using Whimbrel.Conformance;
using Whimbrel.Tls;

namespace Whimbrel.Tests.Tls;

/// <summary>The in-memory handshake before the first real one.</summary>
public sealed class TlsWarmUpTests
{
    private static readonly TlsProfile s_portable = new SslStreamProfile(TestCertificates.ServerOptions,
        isServer: true);

    private static ServerOptions Options(Engine engine) => new()
    {
        Engine = engine,
        EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
        Tls = TestCertificates.ServerOptions
    };

    [Theory]
    [InlineData(TlsProvider.Portable)]
    [InlineData(TlsProvider.OpenSsl)]
    public void Each_layer_shakes_hands_with_itself(TlsProvider provider)
    {
        if (provider == TlsProvider.OpenSsl) Assert.SkipUnless(OpenSslLibrary.IsUsable, OpenSslLibrary.Refusal ?? "");
        TlsWarmUp.Shake(provider);
    }

    [Fact]
    public async Task The_warm_up_runs_once_per_provider_and_concurrent_callers_share_it()
    {
        TaskCompletionSource go = new(TaskCreationOptions.RunContinuationsAsynchronously);
        TlsWarmUp warmUp = new(_ => go.Task.Wait(TestContext.Current.CancellationToken));
        Task first = warmUp.For(s_portable), second = warmUp.For(s_portable);
        Assert.Same(first, second);
        Assert.False(first.IsCompleted);
        go.SetResult();
        await first;
        Assert.Same(first, warmUp.For(s_portable));
        Assert.Equal(1, warmUp.Runs);
    }

    [Fact]
    public void A_test_layer_needs_no_warm_up()
    {
        TlsWarmUp warmUp = new(static _ => throw new InvalidOperationException());
        Assert.True(warmUp.For(new FakeTlsProfile(FakeTlsProfile.Server, true)).IsCompletedSuccessfully);
        Assert.Equal(0, warmUp.Runs);
    }

    [Fact]
    public async Task A_server_that_starts_has_waited_for_it_and_starts_also_when_it_failed()
    {
        TlsWarmUp failing = new(static _ => throw new InvalidOperationException("no such thing"));
        await using WarmEngine engine = new(failing.For);
        await using (Server server = new(Options(engine), static () => new Quiet()))
        {
            await server.StartAsync(TestContext.Current.CancellationToken);
            Assert.NotNull(server.EndPoint);
        }

        Assert.Equal((1, "no such thing"), (failing.Runs, failing.Failure?.Message));
    }

    [Fact]
    public async Task A_real_start_leaves_the_process_warm()
    {
        await using Engine engine = new(new EngineOptions { Loops = 1 });
        await using Server server = new(Options(engine), static () => new Quiet());
        await server.StartAsync(TestContext.Current.CancellationToken);
        Assert.True(TlsWarmUp.OfProcess.Runs >= 1);
        Assert.Null(TlsWarmUp.OfProcess.Failure);
    }

    [Fact]
    public async Task A_plain_server_does_not_wait_for_the_TLS_warm_up()
    {
        await using WarmEngine engine = new(static _ => throw new InvalidOperationException("asked"));
        await using Server server =
            new(new ServerOptions { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) },
                static () => new Quiet());
        await server.StartAsync(TestContext.Current.CancellationToken);
    }

    [Fact]
    public async Task The_first_connect_of_a_client_begins_when_the_warm_up_has_ended()
    {
        TaskCompletionSource warm = new();
        await using WarmEngine engine = new(_ => warm.Task);
        Server server = new(new ServerOptions
        {
            EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
            Tls = TestCertificates.ServerOptions
        }, static () => new Quiet());
        await using (server)
        {
            await server.StartAsync(TestContext.Current.CancellationToken);
            await using Client client = new(new ClientOptions
            {
                Engine = engine,
                EndPoint = server.EndPoint!,
                Tls = TestCertificates.ClientOptions
            }, static () => new Quiet());
            ValueTask<Session> connecting = client.ConnectAsync(TestContext.Current.CancellationToken);
            Assert.False(connecting.IsCompleted);
            warm.SetResult();
            Session session = await connecting;
            Assert.NotNull(session.Tls);
        }
    }

    [Fact]
    public async Task A_connect_fails_when_its_engine_ends_meanwhile()
    {
        TaskCompletionSource warm = new();
        WarmEngine engine = new(_ => warm.Task);
        IPEndPoint anywhere = new(IPAddress.Loopback, 9); // tidy: fixed port because no connect reaches it
        await using Client client =
            new(new ClientOptions { Engine = engine, EndPoint = anywhere, Tls = TestCertificates.ClientOptions },
                static () => new Quiet());
        ValueTask<Session> connecting = client.ConnectAsync(TestContext.Current.CancellationToken);
        await engine.DisposeAsync();
        warm.SetResult();
        NetworkException e = await Assert.ThrowsAsync<NetworkException>(connecting.AsTask);
        Assert.Contains("the engine stopped", e.Message, StringComparison.Ordinal);
    }

    private sealed class Quiet : Session;

    private sealed class WarmEngine(Func<TlsProfile, Task> warm) : Engine(new EngineOptions { Loops = 1 })
    {
        internal override Task WarmUpTls(TlsProfile profile) => warm(profile);
    }
}
