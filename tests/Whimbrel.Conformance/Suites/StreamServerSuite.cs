using System.Net;
using System.Net.Security;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using System.Text;

namespace Whimbrel.Conformance;

/// <summary>Servers that serve each connection by a method with a <see cref="ConnectionStream"/>, and clients that
/// connect one.</summary>
public abstract class StreamServerSuite(Transport transport) : Suite(transport)
{
    private static readonly string[] s_wrong = ["", "127.0.0.1", "http://127.0.0.1:1", "tcp://127.0.0.1",
        "tcp://127.0.0.1:99999", "unix:"];

    [Fact]
    public void A_handler_serves_each_connection_and_starts_on_its_loop() => Run(rig =>
    {
        int onLoop = 0;
        Server server = Start(rig, async (peer, stop) =>
        {
            if (Loop.Current == peer.Loop) Interlocked.Increment(ref onLoop);
            await peer.CopyToAsync(peer, stop).ConfigureAwait(false);
        });
        Peer[] peers = [rig.ConnectPeer(server.EndPoint!), rig.ConnectPeer(server.EndPoint!),
            rig.ConnectPeer(server.EndPoint!)];
        for (int i = 0; i < peers.Length; i++) peers[i].Write($"hello {i}");
        for (int i = 0; i < peers.Length; i++) Assert.Equal($"hello {i}", peers[i].ReadText(7));
        foreach (Peer peer in peers) peer.ShutdownSend();
        foreach (Peer peer in peers) Assert.Empty(peer.ReadToEnd());
        rig.Until(() => server.SessionCount == 0, "the connections to end");
        Assert.Equal(3, onLoop);
    });

    [Fact, Contract(12)]
    public void When_the_handler_returns_all_is_sent_and_the_stream_closed() => Run(rig =>
    {
        byte[] data = Pattern(700_000);
        Server server = Start(rig,
            async (peer, _) => await peer.WriteAsync(data, CancellationToken.None).ConfigureAwait(false));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        Assert.Equal(data, peer.ReadToEnd());
        peer.Close();
        rig.Until(() => server.SessionCount == 0, "the connection to end");
    });

    [Theory, Contract(4)]
    [InlineData(true)]
    [InlineData(false)]
    public void When_the_handler_throws_only_its_connection_is_aborted_and_a_diagnostic_event_is_logged(bool atOnce) =>
        Run(rig =>
        {
            rig.Expect("on purpose");
            CloseReason reason = default;
            Server server = Start(rig, async (peer, stop) =>
            {
                byte[] memory = new byte[10];
                if (!atOnce) await peer.ReadAsync(memory, stop).ConfigureAwait(false);
                if (!atOnce && memory[0] != 'x')
                {
                    await peer.WriteAsync(memory.AsMemory(0, 1), stop).ConfigureAwait(false);
                    await peer.CopyToAsync(peer, stop).ConfigureAwait(false);
                    return;
                }

                _ = stop.UnsafeRegister(_ => reason = peer.CloseReason, null);
                throw new InvalidOperationException("on purpose");
            });
            Peer bad = rig.ConnectPeer(server.EndPoint!);
            Peer? good = atOnce ? null : rig.ConnectPeer(server.EndPoint!);
            if (!atOnce) bad.Write("x");
            Assert.Equal(rig.HasResets, bad.EndsInReset());
            rig.Until(() => reason.Cause == CloseCause.UserException, "the connection to end");
            Assert.Equal("on purpose", reason.Exception!.Message);
            rig.Until(() => rig.Notices.Any(static n => n.Message.Contains("on purpose", StringComparison.Ordinal)
                && n.Page == "user-exception.md"), "the notice");
            if (good is null) return;
            good.Write("y");
            Assert.Equal("y", good.ReadText(1));
        });

    [Fact, Contract(4)]
    public void A_handler_failure_caused_by_its_connection_is_not_reported() => Run(rig =>
    {
        int ended = 0;
        Server server = Start(rig, async (peer, _) =>
        {
            try
            {
                byte[] memory = new byte[10];
                while (await peer.ReadAsync(memory, CancellationToken.None).ConfigureAwait(false) > 0)
                    await peer.WriteAsync(memory, CancellationToken.None).ConfigureAwait(false);
            }
            finally
            {
                Interlocked.Increment(ref ended);
            }
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        peer.Read(10);
        peer.Reset();
        rig.Until(() => ended == 1 && server.SessionCount == 0, "the handler to end");
        Assert.DoesNotContain(rig.Notices, static n => n.Kind == DiagnosticEventKind.UserException);
    });

    [Fact]
    public void At_the_stop_of_the_server_the_token_fires_and_the_handler_may_send_a_last_message() => Run(rig =>
    {
        Server server = Start(rig, async (peer, stop) =>
        {
            try
            {
                byte[] memory = new byte[10];
                while (await peer.ReadAsync(memory, stop).ConfigureAwait(false) > 0)
                {
                }
            }
            catch (OperationCanceledException)
            {
                await peer.WriteAsync(Bytes("goodbye"), CancellationToken.None).ConfigureAwait(false);
                await peer.ReadExactlyAsync(new byte[2], CancellationToken.None).ConfigureAwait(false);
            }
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("hello");
        rig.Until(() => server.SessionCount == 1 && server.BytesReceived == 5, "the session");
        ValueTask<StopReport> stopping = server.StopAsync(TimeSpan.FromSeconds(15));
        Assert.Equal("goodbye", peer.ReadText(7));
        Assert.False(stopping.IsCompleted);
        peer.Write("ok");
        Assert.Empty(peer.ReadToEnd());
        peer.Close();
        Assert.Equal(new StopReport(1, 0), rig.Await(stopping));
    });

    [Fact]
    public void A_handler_that_ends_by_the_cancellation_is_closed_gracefully() => Run(rig =>
    {
        CloseReason reason = default;
        Server server = Start(rig, async (peer, stop) =>
        {
            await peer.WriteAsync(Bytes("hello"), stop).ConfigureAwait(false);
            try
            {
                await peer.CopyToAsync(peer, stop).ConfigureAwait(false);
            }
            finally
            {
                _ = WhenEnded(peer);
            }
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        Assert.Equal("hello", peer.ReadText(5));
        ValueTask<StopReport> stopping = server.StopAsync(TimeSpan.FromSeconds(15));
        Assert.Empty(peer.ReadToEnd());
        peer.Close();
        Assert.Equal(new StopReport(1, 0), rig.Await(stopping));
        rig.Until(() => reason.Cause == CloseCause.ServerStopped, "the reason to say that the server stopped");

        async Task WhenEnded(ConnectionStream stream)
        {
            await stream.DisposeAsync().ConfigureAwait(false);
            reason = stream.CloseReason;
        }
    });

    [Fact]
    public void A_handler_that_ignores_the_stop_is_aborted_at_the_deadline() => Run(rig =>
    {
        NetworkException? thrown = null;
        Server server = Start(rig, async (peer, _) =>
        {
            try
            {
                while (await peer.ReadAsync(new byte[10], CancellationToken.None).ConfigureAwait(false) > 0)
                {
                }
            }
            catch (NetworkException e)
            {
                thrown = e;
                throw;
            }
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        rig.Until(() => server.SessionCount == 1, "the session");
        rig.Settle();
        Assert.Equal(new StopReport(0, 1), rig.Await(server.StopAsync(TimeSpan.FromMilliseconds(50))));
        rig.Until(() => thrown is not null, "the read to fail");
        Assert.Contains("server stopped", thrown!.Message, StringComparison.Ordinal);
        peer.Close();
    });

    [Fact]
    public void The_token_also_fires_when_the_connection_has_ended() => Run(rig =>
    {
        bool fired = false;
        Server server = Start(rig, async (peer, stop) =>
        {
            TaskCompletionSource told = new();
            await using CancellationTokenRegistration registration =
                stop.UnsafeRegister(static t => ((TaskCompletionSource)t!).SetResult(), told);
            _ = Drop();
            await told.Task.ConfigureAwait(false);
            fired = true;

            async Task Drop()
            {
                await peer.ReadAsync(new byte[1], CancellationToken.None).ConfigureAwait(false);
                peer.Abort();
            }
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        rig.Until(() => fired && server.SessionCount == 0, "the token of the handler");
    });

    [Fact]
    public void A_client_connects_a_stream_and_its_errors_have_their_categories() => Run(rig =>
    {
        Server server = Start(rig, async (peer, stop) => await peer.CopyToAsync(peer, stop).ConfigureAwait(false));
        ConnectionStream stream = rig.Await(
            ConnectionStream.ConnectAsync(new ClientOptions { Engine = rig.Engine, EndPoint = server.EndPoint }));
        Task<string> echo = Echo();
        rig.Until(() => echo.IsCompleted, "the echo");
        Assert.Equal("hello", echo.GetAwaiter().GetResult());
        NetworkException refused = Assert.Throws<NetworkException>(() => rig.Await(
            ConnectionStream.ConnectAsync(new ClientOptions { Engine = rig.Engine, EndPoint = rig.DeadAddress() })));
        Assert.Equal(ErrorCategory.Refused, refused.Error.Category);
        Assert.ThrowsAny<OperationCanceledException>(() => rig.Await(ConnectionStream.ConnectAsync(
            new ClientOptions { Engine = rig.Engine, EndPoint = server.EndPoint }, new CancellationToken(true))));

        async Task<string> Echo()
        {
            await using ConnectionStream mine = stream;
            await mine.WriteAsync(Bytes("hello")).ConfigureAwait(false);
            byte[] memory = new byte[5];
            await mine.ReadExactlyAsync(memory).ConfigureAwait(false);
            return Encoding.ASCII.GetString(memory);
        }
    });

    [Fact]
    public void A_wrong_address_gives_the_valid_forms() => Run(rig =>
    {
        foreach (string wrong in s_wrong)
        {
            Assert.ThrowsAny<ArgumentException>(() => rig.Await(Server.StartAsync(wrong,
                static (_, _) => Task.CompletedTask, new ServerOptions { Engine = rig.Engine })));
        }

        Assert.ThrowsAny<ArgumentException>(() => rig.Await(Server.StartAsync("tcp://127.0.0.1:0", static (_, _) =>
            Task.CompletedTask, new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() })));
        Assert.ThrowsAny<ArgumentException>(() => _ = ConnectionStream.Serve(null!));
    });

    [Fact, Contract(15)]
    public void A_session_may_hand_its_connection_over_to_a_handler() => Run(rig =>
    {
        List<string> lines = [];
        Func<SessionContext, Session> serve = ConnectionStream.Serve(async (peer, stop) =>
        {
            using StreamReader reader = new(peer, Encoding.ASCII, leaveOpen: true);
            while (await reader.ReadLineAsync(stop).ConfigureAwait(false) is { } line) lines.Add(line);
            await peer.WriteAsync(Bytes("done"), stop).ConfigureAwait(false);
        });
        RecordingServer server = rig.Serve(session => session.AtData = (self, unread) =>
        {
            int end = unread.IndexOf((byte)'\n');
            if (end < 0) return 0;
            self.CallHandOver(serve(null!));
            return end + 1;
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("login\nfirst\nsecond\n");
        peer.ShutdownSend();
        Assert.Equal("done", peer.ReadTextToEnd());
        Assert.Equal(["first", "second"], lines);
        Assert.Equal(CloseCause.HandedOver, server.Session().End());
    });

    [Fact]
    public void TLS_of_the_framework_runs_over_it() => Run(rig =>
    {
        using X509Certificate2 certificate = NewCertificate();
        byte[] data = Pattern(200_000);
        Server server = Start(rig, async (peer, _) =>
        {
            await using SslStream tls = new(peer, leaveInnerStreamOpen: true);
            await tls.AuthenticateAsServerAsync(new SslServerAuthenticationOptions { ServerCertificate = certificate },
                CancellationToken.None).ConfigureAwait(false);
            byte[] got = new byte[data.Length];
            await tls.ReadExactlyAsync(got, CancellationToken.None).ConfigureAwait(false);
            await tls.WriteAsync(got, CancellationToken.None).ConfigureAwait(false);
            await tls.ShutdownAsync().ConfigureAwait(false);
        });
        ConnectionStream stream = rig.Await(
            ConnectionStream.ConnectAsync(new ClientOptions { Engine = rig.Engine, EndPoint = server.EndPoint }));
        Task<byte[]>? client = null;
        rig.OnLoop(stream.Loop, () => client = Echo());
        rig.Until(() => client!.IsCompleted, "the client to end");
        Assert.Equal(data, client!.GetAwaiter().GetResult());

        async Task<byte[]> Echo()
        {
            await using SslStream tls = new(stream, leaveInnerStreamOpen: false);
            await tls.AuthenticateAsClientAsync(new SslClientAuthenticationOptions
            {
                TargetHost = "example.test",
                RemoteCertificateValidationCallback =
                    (_, given, _, _) => given!.GetCertHashString() == certificate.Thumbprint
            }).ConfigureAwait(false);
            await tls.WriteAsync(data).ConfigureAwait(false);
            using MemoryStream all = new();
            await tls.CopyToAsync(all).ConfigureAwait(false);
            return all.ToArray();
        }
    });

    private static X509Certificate2 NewCertificate()
    {
        using ECDsa key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        CertificateRequest request = new("CN=example.test", key, HashAlgorithmName.SHA256);
        using X509Certificate2 certificate = request.CreateSelfSigned(DateTimeOffset.UtcNow.AddDays(-1),
            DateTimeOffset.UtcNow.AddDays(1));
        return X509CertificateLoader.LoadPkcs12(certificate.Export(X509ContentType.Pkcs12), null);
    }

    private static Server Start(Rig rig, Func<ConnectionStream, CancellationToken, Task> handler)
    {
        EndPoint address = rig.NewAddress();
        string text = address is IPEndPoint ? $"tcp://{address}" : $"unix:{address}";
        return rig.Keep(rig.Await(Server.StartAsync(text, handler, new ServerOptions { Engine = rig.Engine })));
    }
}
