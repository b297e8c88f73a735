using System.Net.Security;
using System.Security.Authentication;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using Whimbrel.Conformance;
using Whimbrel.Tls;

namespace Whimbrel.Tests.Tls;

/// <summary> The contract of TlsLayer, without sockets: two layers, two byte queues, every split. One class per
/// provider, each with the other providers as peers where they are available. </summary>
public abstract class TlsLayerSuite
{
    private static readonly byte[] s_hello = "hello, this is a client"u8.ToArray();

    /// <summary>Prepares options for the provider under test.</summary>
    private protected abstract TlsProfile Prepare(TlsOptions options, bool isServer);

    /// <summary>The layer at the other end.</summary>
    private protected virtual TlsProfile PreparePeer(TlsOptions options, bool isServer) =>
        new SslStreamProfile(options, isServer);

    private TlsPair Pair(TlsOptions? server = null, TlsOptions? client = null, string? host = "chat.test",
        int split = int.MaxValue, bool testsClient = false, int outputBytes = 32 * 1024)
    {
        server ??= TestCertificates.ServerOptions;
        client ??= TestCertificates.ClientOptions;
        return testsClient
            ? new TlsPair(PreparePeer(server, true), Prepare(client, false), host, split, outputBytes)
            : new TlsPair(Prepare(server, true), PreparePeer(client, false), host, split, outputBytes);
    }

    private static byte[] Bytes(int count)
    {
        byte[] bytes = new byte[count];
        for (int i = 0; i < count; i++) bytes[i] = (byte)(i * 31 + (i >> 8));
        return bytes;
    }

    // ------------------------------------------------------------------ handshake and data

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(7)]
    [InlineData(100)]
    [InlineData(1000)]
    [InlineData(int.MaxValue)]
    public void Shakes_hands_and_talks_at_every_split(int split)
    {
        foreach (bool testsClient in (bool[])[false, true])
        {
            foreach (SslProtocols version in (SslProtocols[])[SslProtocols.Tls12, SslProtocols.Tls13])
            {
                using TlsPair pair = Pair(client: new TlsOptions
                {
                    HostName = "chat.test",
                    Roots = TestCertificates.Roots,
                    Protocols = version
                }, split: split, testsClient: testsClient).Shake();
                pair.Talk();
                Assert.Equal(1, pair.Server.ReadyCount);
                Assert.Equal(1, pair.Client.ReadyCount);
                Assert.Equal(version, pair.Server.Layer!.Info.Protocol);
                Assert.Equal(version, pair.Client.Layer!.Info.Protocol);
                Assert.Equal("chat.test", pair.Server.Layer.Info.ServerName);
                Assert.Equal("CN=chat.test", pair.Client.Layer.Info.PeerCertificate?.Subject);
            }
        }
    }

    [Theory]
    [InlineData(1024)]
    [InlineData(1500)]
    [InlineData(32 * 1024)]
    public void Large_amounts_in_both_directions_arrive_whole_through_a_small_output(int outputBytes)
    {
        byte[] data = Bytes(300_000);
        using TlsPair pair = Pair(outputBytes: outputBytes).Shake();
        for (int at = 0; at < data.Length; at += 50_000)
        {
            Assert.Equal(TlsStep.NeedInput, pair.Client.Send(data.AsSpan(at, Math.Min(50_000, data.Length - at))));
            Assert.Equal(TlsStep.NeedInput, pair.Server.Send(data.AsSpan(at, Math.Min(50_000, data.Length - at))));
            pair.Move();
        }

        Assert.Equal(data, pair.Server.Plain.ToArray());
        Assert.Equal(data, pair.Client.Plain.ToArray());
    }

    [Fact]
    public void A_sink_that_says_stop_gets_the_rest_later_and_all_of_it()
    {
        byte[] data = Bytes(200_000);
        using TlsPair pair = Pair().Shake();
        pair.Server.StopAfter = 1;
        for (int at = 0; at < data.Length; at += 1000)
        {
            pair.Client.Send(data.AsSpan(at, 1000));
        }

        pair.Move();
        Assert.True(pair.Server.Deliveries is > 0 and < 200, $"{pair.Server.Deliveries} deliveries");
        int before = pair.Server.Plain.Count;
        Assert.True(before <= 64 * 1024);
        for (int i = 0; i < 1000 && pair.Server.Plain.Count < data.Length; i++) pair.Server.Receive();
        Assert.Equal(data, pair.Server.Plain.ToArray());
    }

    // ------------------------------------------------------------------ ends

    [Fact]
    public void The_proper_end_is_distinguished_from_a_truncation()
    {
        foreach (bool testsClient in (bool[])[false, true])
        {
            foreach (SslProtocols version in (SslProtocols[])[SslProtocols.Tls12, SslProtocols.Tls13])
            {
                TlsOptions client =
                    new() { HostName = "chat.test", Roots = TestCertificates.Roots, Protocols = version };
                using TlsPair proper = Pair(client: client, testsClient: testsClient).Shake();
                (TlsEnd tested, TlsEnd peer) =
                    testsClient ? (proper.Client, proper.Server) : (proper.Server, proper.Client);
                peer.Send(s_hello);
                peer.CloseNotify();
                proper.Move();
                Assert.Equal([TlsStep.PeerClosed], tested.Ends);
                Assert.Equal(s_hello, tested.Plain);

                using TlsPair between = Pair(client: client, testsClient: testsClient).Shake();
                (tested, peer) = testsClient ? (between.Client, between.Server) : (between.Server, between.Client);
                peer.Send(s_hello);
                between.Move();
                tested.EndOfInput();
                Assert.Equal([TlsStep.Truncated], tested.Ends);
                Assert.Equal(TlsFailure.Truncated, tested.Fault.Cause);

                using TlsPair inside = Pair(client: client, testsClient: testsClient).Shake();
                (tested, peer) = testsClient ? (inside.Client, inside.Server) : (inside.Server, inside.Client);
                peer.Send(s_hello);
                peer.Output.RemoveRange(peer.Output.Count - 3, 3);
                inside.Move();
                tested.EndOfInput();
                Assert.Equal([TlsStep.Truncated], tested.Ends);
                Assert.Empty(tested.Plain);
            }
        }
    }

    [Fact]
    public void After_the_peers_end_this_half_still_sends()
    {
        using TlsPair pair = Pair().Shake();
        pair.Client.CloseNotify();
        pair.Move();
        Assert.Equal([TlsStep.PeerClosed], pair.Server.Ends);
        pair.Server.Send(s_hello);
        pair.Server.CloseNotify();
        pair.Move();
        Assert.Equal(s_hello, pair.Client.Plain.ToArray());
        Assert.Equal([TlsStep.PeerClosed], pair.Client.Ends);
    }

    [Fact]
    public void An_end_in_each_flight_of_the_handshake_is_refused_and_not_taken_for_a_proper_one()
    {
        using TlsPair measure = Pair(split: 1).Shake();
        for (int cut = 1; cut < measure.Moved.FromClient - 1; cut += 37)
        {
            using TlsPair pair = Pair(split: 1);
            pair.Client.Start();
            List<byte> sent = [];
            while (sent.Count < cut && (pair.Client.Output.Count > 0 || pair.Server.Output.Count > 0))
            {
                if (pair.Client.Output.Count > 0)
                {
                    sent.Add(pair.Client.Output[0]);
                    pair.Client.Output.RemoveAt(0);
                    pair.Server.Feed([sent[^1]]);
                }
                else
                {
                    pair.Client.Feed([.. pair.Server.Output]);
                    pair.Server.Output.Clear();
                }
            }

            if (pair.Server.Layer is null || pair.Server.IsReady) continue;
            pair.Server.EndOfInput();
            Assert.Equal([TlsStep.Refused], pair.Server.Ends);
            Assert.Equal(TlsFailure.PeerLeft, pair.Server.Fault.Cause);
        }
    }

    [Fact]
    public void A_layer_can_be_freed_in_every_state()
    {
        for (int steps = 0; steps < 6; steps++)
        {
            TlsPair pair = Pair(split: 200);
            if (steps > 0) pair.Client.Start();
            for (int i = 1; i < steps; i++)
            {
                pair.Server.Feed([.. pair.Client.Output]);
                pair.Client.Output.Clear();
                pair.Client.Feed([.. pair.Server.Output]);
                pair.Server.Output.Clear();
            }

            pair.Dispose();
        }
    }

    // ------------------------------------------------------------------ names, protocols, versions, ciphers

    [Fact]
    public void The_name_chooses_the_certificate_exactly_then_by_wildcard_then_the_default()
    {
        TlsOptions server = new()
        {
            Certificate = TlsCertificate.From(TestCertificates.Server),
            Names = new Dictionary<string, TlsOptions>
            {
                ["One.Test"] = new() { Certificate = TlsCertificate.From(TestCertificates.Make("one", "one.test")) },
                ["*.one.test"] =
                    new() { Certificate = TlsCertificate.From(TestCertificates.Make("below one", "*.one.test")) },
                ["a.one.test"] =
                    new() { Certificate = TlsCertificate.From(TestCertificates.Make("a of one", "a.one.test")) },
            },
        };
        TlsProfile profile = Prepare(server, true);
        foreach ((string host, string subject) in ((string, string)[])[("one.test", "CN=one"), ("ONE.test", "CN=one"),
            ("b.one.test", "CN=below one"), ("a.one.test", "CN=a of one"), ("chat.test", "CN=chat.test")])
        {
            using TlsPair pair = new TlsPair(profile, PreparePeer(TestCertificates.ClientOptions, false), host).Shake();
            Assert.Equal(subject, pair.Client.Layer?.Info?.PeerCertificate?.Subject ?? pair.Client.Fault.Message);
            pair.Talk();
        }

        using TlsPair deeper =
            new TlsPair(profile, PreparePeer(TestCertificates.ClientOptions, false), "x.b.one.test").Shake();
        Assert.Equal(TlsFailure.CertificateRejected, deeper.Client.Fault.Cause);
        Assert.Contains("does not cover 'x.b.one.test'", deeper.Client.Fault.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void The_application_protocol_is_the_first_of_the_server_that_the_client_has()
    {
        foreach (bool testsClient in (bool[])[false, true])
        {
            TlsOptions server = new()
            {
                Certificate = TlsCertificate.From(TestCertificates.Server),
                ApplicationProtocols = ["h2", "http/1.1"]
            };
            TlsOptions both = new()
            {
                HostName = "chat.test",
                Roots = TestCertificates.Roots,
                ApplicationProtocols = ["http/1.1", "h2"]
            };
            using TlsPair pair = Pair(server, both, testsClient: testsClient).Shake();
            Assert.Equal("h2", pair.Server.Layer!.Info.ApplicationProtocol);
            Assert.Equal("h2", pair.Client.Layer!.Info.ApplicationProtocol);

            TlsOptions none = new() { HostName = "chat.test", Roots = TestCertificates.Roots };
            using TlsPair silent = Pair(server, none, testsClient: testsClient).Shake();
            Assert.Null(silent.Server.Layer!.Info.ApplicationProtocol);
            silent.Talk();

            TlsOptions other =
                new() { HostName = "chat.test", Roots = TestCertificates.Roots, ApplicationProtocols = ["mqtt"] };
            using TlsPair apart = Pair(server, other, testsClient: testsClient).Shake();
            Assert.False(apart.Server.IsReady);
            Assert.Equal(TlsFailure.NoCommonApplicationProtocol, apart.Server.Fault.Cause);
        }
    }

    [Fact]
    public void A_client_of_another_version_gets_a_clear_message()
    {
        TlsOptions only13 =
            new() { Certificate = TlsCertificate.From(TestCertificates.Server), Protocols = SslProtocols.Tls13 };
        TlsOptions only12 =
            new() { HostName = "chat.test", Roots = TestCertificates.Roots, Protocols = SslProtocols.Tls12 };
        using TlsPair pair = Pair(only13, only12).Shake();
        Assert.Equal(TlsFailure.NoCommonVersion, pair.Server.Fault.Cause);
        Assert.Contains("client offers only TLS", pair.Server.Fault.Message, StringComparison.Ordinal);
        Assert.Contains("server allows TLS 1.3", pair.Server.Fault.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void A_client_that_allows_one_version_does_not_speak_the_other()
    {
        TlsOptions server =
            new() { Certificate = TlsCertificate.From(TestCertificates.Server), Protocols = SslProtocols.Tls12 };
        TlsOptions client =
            new() { HostName = "chat.test", Roots = TestCertificates.Roots, Protocols = SslProtocols.Tls13 };
        using TlsPair pair = Pair(server, client, testsClient: true).Shake();
        Assert.False(pair.Client.IsReady);
        Assert.False(pair.Server.IsReady);
    }

    [Fact]
    public void Named_cipher_suites_are_used_and_without_a_common_one_there_is_no_connection()
    {
        TlsOptions server = new()
        {
            Certificate = TlsCertificate.From(TestCertificates.Server),
            CipherSuites = [TlsCipherSuite.TLS_AES_128_GCM_SHA256]
        };
        using TlsPair pair = Pair(server).Shake();
        Assert.Equal(TlsCipherSuite.TLS_AES_128_GCM_SHA256, pair.Server.Layer!.Info.CipherSuite);
        TlsOptions client = new()
        {
            HostName = "chat.test",
            Roots = TestCertificates.Roots,
            CipherSuites = [TlsCipherSuite.TLS_CHACHA20_POLY1305_SHA256]
        };
        using TlsPair apart = Pair(server, client).Shake();
        Assert.False(apart.Server.IsReady);
        Assert.Equal(TlsFailure.NoCommonCipher, apart.Server.Fault.Cause);
    }

    // ------------------------------------------------------------------ trust

    private void Refuses(TlsOptions server, TlsOptions client, string words, string? host = "chat.test",
        bool serverRefuses = false)
    {
        using TlsPair pair = Pair(server, client, host, testsClient: !serverRefuses).Shake();
        TlsEnd judge = serverRefuses ? pair.Server : pair.Client;
        Assert.Equal(TlsFailure.CertificateRejected, judge.Fault.Cause);
        Assert.Contains(words, judge.Fault.Message, StringComparison.Ordinal);
        if (serverRefuses) Assert.False(pair.Server.IsReady);
        else Assert.False(pair.Client.IsReady);
    }

    private static TlsOptions With(X509Certificate2 certificate, X509Certificate2Collection? chain = null) =>
        new() { Certificate = TlsCertificate.From(certificate, chain) };

    [Fact]
    public void A_client_refuses_every_bad_certificate_of_a_server_and_says_why()
    {
        TlsOptions client = TestCertificates.ClientOptions;
        Refuses(With(TestCertificates.Server), client, "does not cover 'other.test', only chat.test, localhost",
            "other.test");
        Refuses(With(TestCertificates.Make("old", "chat.test", fromDays: -20, toDays: -10)), client, "expired 20");
        Refuses(With(TestCertificates.Make("young", "chat.test", fromDays: 10, toDays: 20)), client,
            "is not valid before 20");
        Refuses(With(TestCertificates.Make("self", "chat.test", selfSigned: true)), client, "self-signed");
        Refuses(With(TestCertificates.Make("foreign", "chat.test", issuer: TestCertificates.OtherRoot)), client,
            "Another test root");
        Refuses(With(TestCertificates.Make("usage", "chat.test", forServers: false)), client, "not meant for this use");
        Refuses(With(TestCertificates.Make("below", "chat.test", issuer: TestCertificates.Intermediate)), client,
            "Whimbrel test intermediate");
        Refuses(With(TestCertificates.Make("chat.test")), client, "no alternative names");
        Refuses(With(TestCertificates.Server), new TlsOptions(), "not among the trusted roots");
    }

    [Fact]
    public void A_chain_over_an_intermediate_is_sent_and_accepted()
    {
        TlsOptions server = With(TestCertificates.Make("below", "chat.test", issuer: TestCertificates.Intermediate),
            [TestCertificates.Intermediate]);
        using TlsPair pair = Pair(server, testsClient: false).Shake();
        pair.Talk();
        using TlsPair other = Pair(server, testsClient: true).Shake();
        other.Talk();
    }

    [Fact]
    public void A_weak_algorithm_is_refused_anywhere_in_the_chain_unless_it_is_allowed()
    {
        // The peer must be able to use it, which SslStream leaves to the system's policy.
        Assert.SkipUnless(OpenSslLibrary.IsUsable, OpenSslLibrary.Refusal ?? "");
        X509Certificate2Collection roots = [new X509Certificate2(TestCertificates.RsaRoot)];
        X509Certificate2 weakAuthority = TestCertificates.MakeRsa("weak authority", 1024, HashAlgorithmName.SHA256,
            isAuthority: true);
        X509Certificate2 oldAuthority = TestCertificates.MakeRsa("old authority", 2048, HashAlgorithmName.SHA1,
            isAuthority: true);
        (X509Certificate2 Leaf, X509Certificate2? Authority, TlsWeakAlgorithms Allow, string? Words)[] cases =
        [
            (TestCertificates.MakeRsa("good", 2048, HashAlgorithmName.SHA256), null, TlsWeakAlgorithms.None, null),
            (TestCertificates.MakeRsa("short", 1024, HashAlgorithmName.SHA256), null, TlsWeakAlgorithms.Rsa1024Key,
                "'CN=short' has an RSA key of 1024 bits, and 2048 are the least"),
            (TestCertificates.MakeRsa("old", 2048, HashAlgorithmName.SHA1), null, TlsWeakAlgorithms.Sha1Signature,
                "'CN=old' is signed with SHA-1"),
            (TestCertificates.MakeRsa("below", 2048, HashAlgorithmName.SHA256, issuer: weakAuthority), weakAuthority,
                TlsWeakAlgorithms.Rsa1024Key, "'CN=weak authority' has an RSA key of 1024 bits"),
            (TestCertificates.MakeRsa("below", 2048, HashAlgorithmName.SHA256, issuer: oldAuthority), oldAuthority,
                TlsWeakAlgorithms.Sha1Signature, "'CN=old authority' is signed with SHA-1"),
        ];
        foreach ((X509Certificate2 leaf, X509Certificate2? authority, TlsWeakAlgorithms allow, string? words) in cases)
        {
            X509Certificate2Collection? sent = authority is null ? null : [authority];
            OpenSslProfile server = OpenSslRig.Prepare(new TlsOptions
            {
                Certificate = TlsCertificate.From(leaf, sent),
                AllowedWeakAlgorithms = TlsWeakAlgorithms.Rsa1024Key | TlsWeakAlgorithms.Sha1Signature
            }, true);
            foreach (TlsWeakAlgorithms allowed in (TlsWeakAlgorithms[])[TlsWeakAlgorithms.None,
                TlsWeakAlgorithms.Rsa1024Key, TlsWeakAlgorithms.Sha1Signature])
            {
                using TlsPair pair = new TlsPair(server,
                    Prepare(new TlsOptions { HostName = "chat.test", Roots = roots, AllowedWeakAlgorithms = allowed },
                        false)).Shake();
                if ((allow & ~allowed) == 0)
                {
                    pair.Talk();
                    continue;
                }

                Assert.Equal(TlsFailure.CertificateRejected, pair.Client.Fault.Cause);
                Assert.Contains(words!, pair.Client.Fault.Message, StringComparison.Ordinal);
                Assert.Contains($"TlsOptions.AllowedWeakAlgorithms = {allow}", pair.Client.Fault.Message,
                    StringComparison.Ordinal);
            }
        }
    }

    [Fact]
    public void A_server_measures_its_clients_certificates_the_same_way()
    {
        Assert.SkipUnless(OpenSslLibrary.IsUsable, OpenSslLibrary.Refusal ?? "");
        X509Certificate2 weak = TestCertificates.MakeRsa("weak client", 1024, HashAlgorithmName.SHA256,
            forServers: false);
        OpenSslProfile client = OpenSslRig.Prepare(new TlsOptions
        {
            HostName = "chat.test",
            Roots = TestCertificates.Roots,
            Certificate = TlsCertificate.From(weak),
            AllowedWeakAlgorithms = TlsWeakAlgorithms.Rsa1024Key
        }, false);
        foreach (TlsWeakAlgorithms allowed in (TlsWeakAlgorithms[])[TlsWeakAlgorithms.None,
            TlsWeakAlgorithms.Rsa1024Key])
        {
            TlsOptions server = new()
            {
                Certificate = TlsCertificate.From(TestCertificates.Server),
                ClientCertificates = TlsClientCertificates.Required,
                Roots = [new X509Certificate2(TestCertificates.RsaRoot)],
                AllowedWeakAlgorithms = allowed
            };
            using TlsPair pair = new TlsPair(Prepare(server, true), client).Shake();
            if (allowed != TlsWeakAlgorithms.None) pair.Talk();
            else Assert.Contains("'CN=weak client' has an RSA key of 1024 bits", pair.Server.Fault.Message,
                StringComparison.Ordinal);
        }
    }

    [Fact]
    public void A_wildcard_needs_two_labels_after_it()
    {
        Refuses(With(TestCertificates.Make("star", "*.test")), TestCertificates.ClientOptions,
            "by a wildcard directly below a top-level domain (*.test)");
        Refuses(With(TestCertificates.Make("star", "*.chat.test")), TestCertificates.ClientOptions,
            "does not cover 'chat.test', only *.chat.test");
        Refuses(With(TestCertificates.Make("star", "*.chat.test")), new TlsOptions { Roots = TestCertificates.Roots },
            "does not cover 'a.b.chat.test'", "a.b.chat.test");
        using TlsPair two = Pair(With(TestCertificates.Make("star", "*.chat.test")),
            new TlsOptions { Roots = TestCertificates.Roots }, "www.chat.test", testsClient: true).Shake();
        two.Talk();
        using TlsPair named = Pair(With(TestCertificates.Make("both", "*.test", "chat.test")), testsClient: true)
            .Shake();
        named.Talk();
    }

    [Fact]
    public void A_pinned_key_decides_alone()
    {
        X509Certificate2 self = TestCertificates.Make("self", "elsewhere.test", selfSigned: true);
        using TlsPair pair =
            Pair(With(self), new TlsOptions { PinnedKeys = [TlsCertificate.PinOf(self)] }, testsClient: true).Shake();
        pair.Talk();
        Refuses(With(TestCertificates.Server), new TlsOptions
        {
            HostName = "chat.test",
            Roots = TestCertificates.Roots,
            PinnedKeys = [TlsCertificate.PinOf(self)]
        }, "none of PinnedKeys");
        TlsOptions asked = new()
        {
            HostName = "chat.test",
            Roots = TestCertificates.Roots,
            PinnedKeys = [TlsCertificate.PinOf(TestCertificates.Server)],
            Verify = static _ => false
        };
        Refuses(With(TestCertificates.Server), asked, "Verify refused");
    }

    [Fact]
    public void The_users_verdict_is_final_and_its_exception_a_refusal()
    {
        using TlsPair kind = Pair(With(TestCertificates.Make("self", "chat.test", selfSigned: true)),
            new TlsOptions { Verify = static v => !v.IsTrusted && v.HostName == "chat.test" }, testsClient: true)
            .Shake();
        kind.Talk();
        TlsOptions strict =
            new() { HostName = "chat.test", Roots = TestCertificates.Roots, Verify = static _ => false };
        Refuses(With(TestCertificates.Server), strict, "Verify refused");
        TlsOptions broken = new()
        {
            HostName = "chat.test",
            Roots = TestCertificates.Roots,
            Verify = static _ => throw new InvalidOperationException("no mood")
        };
        Refuses(With(TestCertificates.Server), broken, "threw InvalidOperationException: no mood");
    }

    [Fact]
    public void A_server_that_requires_certificates_accepts_only_clients_with_a_valid_one()
    {
        TlsOptions server = new()
        {
            Certificate = TlsCertificate.From(TestCertificates.Server),
            ClientCertificates = TlsClientCertificates.Required,
            Roots = TestCertificates.Roots
        };
        TlsOptions Client(X509Certificate2? own) => new()
        {
            HostName = "chat.test",
            Roots = TestCertificates.Roots,
            Certificate = own is null ? null : TlsCertificate.From(own)
        };
        foreach (bool testsClient in (bool[])[false, true])
        {
            using TlsPair good = Pair(server, Client(TestCertificates.Client), testsClient: testsClient).Shake();
            good.Talk();
            Assert.Equal("CN=a client", good.Server.Layer!.Info.PeerCertificate?.Subject);
        }

        Refuses(server, Client(null), "gave no certificate", serverRefuses: true);
        Refuses(server, Client(TestCertificates.Make("x", forServers: false, issuer: TestCertificates.OtherRoot)),
            "not among the trusted roots", serverRefuses: true);
        Refuses(server, Client(TestCertificates.Server), "not meant for this use", serverRefuses: true);
        Refuses(server, Client(TestCertificates.Make("x", forServers: false, fromDays: -9, toDays: -5)), "expired",
            serverRefuses: true);
    }

    [Fact]
    public void A_server_that_requests_certificates_accepts_clients_without_one_but_not_with_an_invalid_one()
    {
        TlsOptions server = new()
        {
            Certificate = TlsCertificate.From(TestCertificates.Server),
            ClientCertificates = TlsClientCertificates.Requested,
            Roots = TestCertificates.Roots
        };
        using TlsPair none = Pair(server).Shake();
        none.Talk();
        Assert.Null(none.Server.Layer!.Info.PeerCertificate);
        TlsOptions bad = new()
        {
            HostName = "chat.test",
            Roots = TestCertificates.Roots,
            Certificate =
                TlsCertificate.From(TestCertificates.Make("x", forServers: false, issuer: TestCertificates.OtherRoot))
        };
        Refuses(server, bad, "not among the trusted roots", serverRefuses: true);
    }

    // ------------------------------------------------------------------ arguments of Verify, and wider trust

    [Fact]
    public void The_users_verdict_receives_every_kind_of_error()
    {
        void Sees(X509Certificate2 shown, SslPolicyErrors errors, X509ChainStatusFlags status,
            string host = "chat.test")
        {
            TlsVerification? seen = null;
            TlsOptions client = new()
            {
                HostName = host,
                Roots = TestCertificates.Roots,
                Verify = v =>
                {
                    // The chain is valid during the call only.
                    Assert.NotEmpty(v.Chain!.ChainElements);
                    seen = v;
                    return true;
                },
            };
            using TlsPair pair = Pair(With(shown), client, host, testsClient: true).Shake();
            pair.Talk();
            Assert.Equal((errors, status, errors == SslPolicyErrors.None),
                (seen!.PolicyErrors, seen.ChainStatus, seen.IsTrusted));
            Assert.Equal(shown.Subject, seen.Certificate!.Subject);
        }

        Sees(TestCertificates.Server, SslPolicyErrors.None, X509ChainStatusFlags.NoError);
        Sees(TestCertificates.Server, SslPolicyErrors.RemoteCertificateNameMismatch, X509ChainStatusFlags.NoError,
            host: "elsewhere.test");
        Sees(TestCertificates.Make("self", "chat.test", selfSigned: true), SslPolicyErrors.RemoteCertificateChainErrors,
            X509ChainStatusFlags.UntrustedRoot);
        Sees(
            TestCertificates.Make("old", "chat.test", fromDays: -9, toDays: -5),
            SslPolicyErrors.RemoteCertificateChainErrors | SslPolicyErrors.RemoteCertificateNameMismatch,
            X509ChainStatusFlags.NotTimeValid,
            host: "elsewhere.test");
    }

    [Fact]
    public void A_verdict_receives_a_key_that_is_not_pinned_and_a_key_that_is_too_weak()
    {
        SslPolicyErrors errors = default;
        X509ChainStatusFlags status = default;
        bool See(TlsVerification v)
        {
            (errors, status) = (v.PolicyErrors, v.ChainStatus);
            return false;
        }

        Refuses(With(TestCertificates.Server), new TlsOptions
        {
            HostName = "chat.test",
            PinnedKeys = [TlsCertificate.PinOf(TestCertificates.Client)],
            Verify = See
        }, "none of PinnedKeys");
        Assert.Equal(SslPolicyErrors.RemoteCertificateChainErrors, errors);
        X509Certificate2 weak = TestCertificates.MakeRsa("weak", 2048, HashAlgorithmName.SHA1);
        OpenSslProfile shows = OpenSslRig.Prepare(new TlsOptions
        {
            Certificate = TlsCertificate.From(weak),
            AllowedWeakAlgorithms = TlsWeakAlgorithms.Sha1Signature
        }, true);
        using TlsPair pair = new TlsPair(shows, Prepare(new TlsOptions
        {
            HostName = "chat.test",
            Roots = [new X509Certificate2(TestCertificates.RsaRoot)],
            Verify = See
        }, false)).Shake();
        Assert.Contains("signed with SHA-1", pair.Client.Fault.Message, StringComparison.Ordinal);
        Assert.Equal(SslPolicyErrors.RemoteCertificateChainErrors, errors);
        Assert.True((status & X509ChainStatusFlags.HasWeakSignature) != 0, $"{status}");
    }

    [Theory]
    [InlineData(TlsClientCertificates.Required)]
    [InlineData(TlsClientCertificates.Requested)]
    public void The_users_verdict_decides_about_a_client_without_a_certificate(TlsClientCertificates asks)
    {
        foreach (bool letsIn in (bool[])[true, false])
        {
            TlsVerification? seen = null;
            TlsOptions server = new()
            {
                Certificate = TlsCertificate.From(TestCertificates.Server),
                ClientCertificates = asks,
                Roots = TestCertificates.Roots,
                Verify = v =>
                {
                    seen = v;
                    return letsIn;
                },
            };
            if (!letsIn)
            {
                Refuses(server, TestCertificates.ClientOptions,
                    asks == TlsClientCertificates.Required ? "the client gave no certificate" : "Verify refused",
                    serverRefuses: true);
            }
            else
            {
                using TlsPair pair = Pair(server).Shake();
                pair.Talk();
            }

            Assert.NotNull(seen);
            Assert.Null(seen.Certificate);
            Assert.Null(seen.Chain);
            Assert.Equal(SslPolicyErrors.RemoteCertificateNotAvailable, seen.PolicyErrors);
            Assert.Equal(asks == TlsClientCertificates.Requested, seen.IsTrusted);
        }
    }

    [Fact]
    public void Extra_roots_count_beside_the_others()
    {
        TlsOptions client = new() { HostName = "chat.test", ExtraRoots = TestCertificates.Roots };
        using TlsPair direct = Pair(With(TestCertificates.Server), client, testsClient: true).Shake();
        direct.Talk();
        X509Certificate2 below = TestCertificates.Make("below", "chat.test", issuer: TestCertificates.Intermediate);
        Refuses(With(below), client, "the peer did not send it as an intermediate");
        using TlsPair chained =
            Pair(new TlsOptions { Certificate = TlsCertificate.From(below, [TestCertificates.Intermediate]) }, client,
                testsClient: true).Shake();
        chained.Talk();
        Refuses(With(TestCertificates.Make("other", "chat.test", issuer: TestCertificates.OtherRoot)), client,
            "not among the trusted roots");
        Refuses(With(TestCertificates.Make("old", "chat.test", fromDays: -9, toDays: -5)), client, "expired");
        Refuses(With(TestCertificates.Server),
            new TlsOptions { HostName = "elsewhere.test", ExtraRoots = TestCertificates.Roots },
            "does not cover 'elsewhere.test'", host: "elsewhere.test");
        OptionErrors errors = new("TLS");
        new TlsOptions { Roots = TestCertificates.Roots, ExtraRoots = TestCertificates.Roots }.Validate(errors,
            isServer: false);
        Assert.Contains("Tls.ExtraRoots", Assert.Throws<ArgumentException>(errors.ThrowIfAny).Message,
            StringComparison.Ordinal);
    }

    [Fact]
    public void A_name_that_is_not_checked_leaves_the_chain_to_be_checked()
    {
        TlsOptions client =
            new() { HostName = "elsewhere.test", Roots = TestCertificates.Roots, ChecksHostName = false };
        using TlsPair named = Pair(With(TestCertificates.Server), client, "elsewhere.test", testsClient: true).Shake();
        named.Talk();
        using TlsPair unnamed = Pair(With(TestCertificates.Server),
            new TlsOptions { Roots = TestCertificates.Roots, ChecksHostName = false }, host: null, testsClient: true)
            .Shake();
        unnamed.Talk();
        Refuses(With(TestCertificates.Make("other", "elsewhere.test", issuer: TestCertificates.OtherRoot)), client,
            "not among the trusted roots", "elsewhere.test");
    }

    // ------------------------------------------------------------------ sessions of other names or other trust

    [Fact]
    public void A_client_without_a_name_to_check_trusts_no_server()
    {
        Refuses(With(TestCertificates.Server), new TlsOptions { Roots = TestCertificates.Roots },
            "no name that it should cover", host: null);
        using TlsPair asked = Pair(With(TestCertificates.Server),
            new TlsOptions { Roots = TestCertificates.Roots, Verify = static v => v.HostName is null && v.IsTrusted },
            host: null, testsClient: true).Shake();
        asked.Talk();
    }

    [Fact]
    public void A_pin_and_a_verdict_both_count()
    {
        TlsOptions Client(string pin, bool verdict, List<string?> seen) => new()
        {
            HostName = "chat.test",
            PinnedKeys = [pin],
            Verify = v =>
            {
                seen.Add(v.Problem);
                return verdict;
            },
        };
        string right = TlsCertificate.PinOf(TestCertificates.Server),
            wrong = TlsCertificate.PinOf(TestCertificates.Client);
        List<string?> seen = [];
        Refuses(With(TestCertificates.Server), Client(right, false, seen), "Verify refused");
        Assert.Equal([null], seen);
        Refuses(With(TestCertificates.Server), Client(wrong, false, seen), "none of PinnedKeys");
        Assert.Contains("none of PinnedKeys", seen[1], StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(SslProtocols.Tls12)]
    [InlineData(SslProtocols.Tls13)]
    public void A_session_made_under_lenient_options_does_not_help_strict_ones(SslProtocols version)
    {
        // Same name on both sides: a session cached for a name must not be used by a profile with another trust.
        string host = $"lenient{(int)version}.test";
        TlsProfile server = PreparePeer(With(TestCertificates.Make("self", host, selfSigned: true)), true);
        TlsProfile lenient = Prepare(new TlsOptions { HostName = host, Protocols = version, Verify = static _ => true },
            false);
        for (int i = 0; i < 2; i++)
        {
            using TlsPair pair = new TlsPair(server, lenient, host).Shake();
            pair.Talk();
            pair.Client.CloseNotify();
            pair.Server.CloseNotify();
            pair.Move();
        }

        TlsProfile strict =
            Prepare(new TlsOptions { HostName = host, Protocols = version, Roots = TestCertificates.Roots }, false);
        using TlsPair refused = new TlsPair(server, strict, host).Shake();
        Assert.False(refused.Client.IsReady);
        Assert.Equal(TlsFailure.CertificateRejected, refused.Client.Fault.Cause);

        // A session of one name is not used for another name of the same server either.
        using TlsPair other = new TlsPair(server, lenient, "other" + host).Shake();
        other.Talk();
        Assert.False(other.Client.Layer!.Info.IsResumed);
    }

    [Fact]
    public void A_client_without_a_host_name_gets_the_default_certificate_where_unknown_names_are_refused()
    {
        TlsOptions Options(TlsCertificate? own) => new()
        {
            Certificate = own,
            UnknownName = TlsUnknownServerName.Refuse,
            Names = new Dictionary<string, TlsOptions>
            {
                ["chat.test"] = new() { Certificate = TlsCertificate.From(TestCertificates.Server) }
            },
        };
        TlsProfile with = Prepare(Options(TlsCertificate.From(TestCertificates.Server)), true),
            without = Prepare(Options(null), true);
        Assert.Same(with, with.Select(null));
        Assert.Null(with.Select("else.test"));
        Assert.Null(without.Select(null));
        Assert.NotNull(without.Select("chat.test"));
    }

    // ------------------------------------------------------------------ alerts

    /// <summary>Whether the provider sends an alert for this: SslStream cannot (docs/design/0016).</summary>
    private protected virtual bool SaysAlerts => true;

    [Theory]
    [InlineData(SslProtocols.Tls12)]
    [InlineData(SslProtocols.Tls13)]
    public void A_refused_peer_receives_an_alert_with_the_reason(SslProtocols version)
    {
        foreach (string what in (string[])["server certificate", "server expired", "client certificate", "record"])
        {
            TlsOptions server = new()
            {
                Certificate = TlsCertificate.From(
                    what == "server certificate"
                        ? TestCertificates.Make("x", "chat.test", issuer: TestCertificates.OtherRoot)
                    : what == "server expired" ? TestCertificates.Make("x", "chat.test", fromDays: -20, toDays: -10)
                    : TestCertificates.Server),
                ClientCertificates =
                    what == "client certificate" ? TlsClientCertificates.Required : TlsClientCertificates.Off,
                Roots = TestCertificates.Roots,
            };
            TlsOptions client = new()
            {
                HostName = "chat.test",
                Roots = TestCertificates.Roots,
                Protocols = version,
                Certificate = TlsCertificate.From(TestCertificates.Make("x",
                    forServers: false, issuer: TestCertificates.OtherRoot))
            };
            bool clientJudges = what.StartsWith("server", StringComparison.Ordinal);
            using TlsPair pair = Pair(server, client, testsClient: clientJudges).Shake();
            (TlsEnd judge, TlsEnd judged) = clientJudges ? (pair.Client, pair.Server) : (pair.Server, pair.Client);
            if (what == "record")
            {
                pair.Client.Send(s_hello);
                pair.Client.Output[^4] ^= 1;
                pair.Move();
            }

            Assert.Equal(what == "record" ? TlsFailure.BadRecord : TlsFailure.CertificateRejected, judge.Fault.Cause);
            if (!SaysAlerts) continue;
            Assert.Equal(TlsFailure.RefusedByPeer, judged.Fault.Cause);
            Assert.Contains(what == "record" ? "'bad record mac'" : what == "server expired" ? "'certificate expired'"
                : "'bad certificate'", judged.Fault.Message, StringComparison.Ordinal);
        }
    }

    // ------------------------------------------------------------------ resumption

    /// <summary>Whether one of the two providers reports a resumed session: SslStream does not.</summary>
    private protected virtual bool ReportsResumption => true;

    [Theory]
    [InlineData(SslProtocols.Tls12)]
    [InlineData(SslProtocols.Tls13)]
    public void A_second_connection_resumes_the_session_unless_it_is_not_allowed(SslProtocols version)
    {
        foreach (bool allowed in (bool[])[true, false])
        {
            string host = $"r{(allowed ? 1 : 0)}{(int)version}.test";
            TlsOptions serverOptions = new()
            {
                Certificate = TlsCertificate.From(TestCertificates.Make("resumed", host)),
                AllowResumption = allowed
            };
            TlsProfile server = Prepare(serverOptions, true);
            TlsProfile client = PreparePeer(
                new TlsOptions { HostName = host, Roots = TestCertificates.Roots, Protocols = version }, false);
            bool resumed = false;
            for (int i = 0; i < 3; i++)
            {
                using TlsPair pair = new TlsPair(server, client, host).Shake();
                pair.Talk();
                TlsInfo[] both = [pair.Client.Layer!.Info, pair.Server.Layer!.Info];
                resumed |= both.Any(static info => info.IsResumed);
                if (i == 0) Assert.False(resumed);
                Assert.DoesNotContain(both, static info => info.IsResumed && info.Provider == TlsProvider.Portable);
                pair.Client.CloseNotify();
                pair.Server.CloseNotify();
                pair.Move();
            }

            Assert.Equal(allowed && ReportsResumption, resumed);
        }
    }

    [Theory]
    [InlineData(SslProtocols.Tls12)]
    [InlineData(SslProtocols.Tls13)]
    public void A_session_of_an_open_name_does_not_open_one_that_requires_certificates(SslProtocols version)
    {
        TlsCertificate certificate = TlsCertificate.From(TestCertificates.Make("both", "open.test", "strict.test"));
        TlsOptions options = new()
        {
            Certificate = certificate,
            Names = new Dictionary<string, TlsOptions>
            {
                ["open.test"] = new() { Certificate = certificate },
                ["strict.test"] = new()
                {
                    Certificate = certificate,
                    ClientCertificates = TlsClientCertificates.Required,
                    Roots = TestCertificates.Roots
                },
            },
        };
        TlsProfile server = Prepare(options, true);
        // A client caches sessions by address, and would present the session of the open name to the strict one. Both
        // connections use the same host, and the name is changed on the server, so that the ticket of the first is
        // offered.
        TlsProfile client = PreparePeer(new TlsOptions { Roots = TestCertificates.Roots, Protocols = version }, false);
        for (int i = 0; i < 2; i++)
        {
            using TlsPair open = new TlsPair(server.Select("open.test")!, client, "open.test").Shake();
            open.Talk();
            open.Client.CloseNotify();
            open.Server.CloseNotify();
            open.Move();
        }

        using TlsPair strict = new TlsPair(server.Select("strict.test")!, client, "open.test").Shake();
        Assert.False(strict.Server.IsReady);
        Assert.Contains("gave no certificate", strict.Server.Fault.Message, StringComparison.Ordinal);
    }

    // ------------------------------------------------------------------ bad input

    public static readonly TheoryData<string, byte[]> Garbage = new()
    {
        { "http", "GET / HTTP/1.1\r\nHost: chat.test\r\n\r\n"u8.ToArray() },
        { "zeros", new byte[300] },
        { "text", "\r\n\r\nhello\r\n"u8.ToArray() },
        { "ssl2", [0x80, 0x2e, 1, 0, 2, 0, 0x15, 0, 0, 0, 0x10, 1, 0, 0x80] },
    };

    [Theory]
    [MemberData(nameof(Garbage))]
    public void Data_that_is_not_TLS_is_refused_at_its_first_bytes(string name, byte[] bytes)
    {
        Assert.NotEmpty(name);
        using TlsEnd server = new(Prepare(TestCertificates.ServerOptions, true));
        server.Feed(bytes.AsSpan(0, 2));
        Assert.Equal([TlsStep.Refused], server.Ends);
        Assert.Equal(TlsFailure.NotTls, server.Fault.Cause);
    }

    [Fact]
    public void A_client_that_meets_plain_text_says_that_it_is_not_TLS()
    {
        using TlsEnd client = new(Prepare(TestCertificates.ClientOptions, false), "chat.test");
        client.Start();
        client.Feed("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"u8);
        Assert.Equal([TlsStep.Refused], client.Ends);
        Assert.True(client.Fault.Cause is TlsFailure.NotTls or TlsFailure.BadRecord, client.Fault.ToString());
    }

    [Fact]
    public void Changed_bytes_of_the_handshake_end_it_without_harm()
    {
        using TlsPair measure = Pair().Shake();
        int size = (int)measure.Moved.FromClient;
        Random random = new(12345);
        for (int i = 0; i < 60; i++)
        {
            using TlsPair pair = Pair();
            pair.Client.Start();
            int at = random.Next(5, Math.Min(size, pair.Client.Output.Count));
            pair.Client.Output[at] ^= (byte)random.Next(1, 256);
            pair.Move();
            if (!pair.Server.IsReady) continue;
            pair.Talk(); // a byte that is not checked
        }
    }

    [Fact]
    public void A_record_that_was_changed_is_refused_and_nothing_of_it_delivered()
    {
        using TlsPair pair = Pair().Shake();
        pair.Client.Send(s_hello);
        pair.Client.Output[^4] ^= 1;
        pair.Move();
        Assert.Equal([TlsStep.Refused], pair.Server.Ends);
        Assert.Equal(TlsFailure.BadRecord, pair.Server.Fault.Cause);
        Assert.Empty(pair.Server.Plain);
    }

    [Fact]
    public void Oversized_and_empty_records_are_refused()
    {
        using TlsPair large = Pair().Shake();
        large.Server.Feed([0x17, 3, 3, 0x60, 0, .. new byte[0x6000]]);
        Assert.Equal([TlsStep.Refused], large.Server.Ends);

        using TlsPair empty = Pair().Shake();
        for (int i = 0; i < 100 && !empty.Server.HasEnded; i++) empty.Server.Feed([0x17, 3, 3, 0, 0]);
        Assert.Equal([TlsStep.Refused], empty.Server.Ends);
    }

    [Fact]
    public void A_hello_over_several_records_is_read_and_one_that_never_ends_is_not()
    {
        using TlsPair pair = Pair();
        pair.Client.Start();
        byte[] hello = [.. pair.Client.Output];
        pair.Client.Output.Clear();
        List<byte> cut = [];
        for (int at = 5; at < hello.Length; at += 50)
        {
            int count = Math.Min(50, hello.Length - at);
            cut.AddRange([0x16, 3, 1, 0, (byte)count, .. hello.AsSpan(at, count)]);
        }

        pair.Server.Feed(cut.ToArray());
        pair.Move();
        pair.Talk();
        Assert.Equal("chat.test", pair.Server.Layer!.Info.ServerName);

        using TlsEnd server = new(Prepare(TestCertificates.ServerOptions, true));
        server.Feed([0x16, 3, 1, 0, 4, 1, 0x7f, 0xff, 0xff]);
        Assert.Equal([TlsStep.Refused], server.Ends);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_renegotiation_is_refused(bool testsClient)
    {
        const byte handshake = 0x16;
        TlsOptions client = OpenSslRig.Client(SslProtocols.Tls12), server = TestCertificates.ServerOptions;
        using TlsPair pair = new TlsPair(
            testsClient ? OpenSslRig.Prepare(server, true) : Prepare(server, true),
            testsClient ? Prepare(client, false) : OpenSslRig.Prepare(client, false)).Shake();
        pair.Talk();
        (TlsEnd bad, TlsEnd good) = testsClient ? (pair.Server, pair.Client) : (pair.Client, pair.Server);
        OpenSslRig.Renegotiate(bad);
        bad.Send("x"u8);
        byte[] request = [.. bad.Output];
        Assert.Contains(handshake, RecordTypes(request));
        good.Feed(request);
        // It refuses or ends the connection; a provider that answered with a handshake would accept another certificate
        // from now on.
        Assert.DoesNotContain(handshake, RecordTypes([.. good.Output]));
        Assert.Equal(1, good.ReadyCount);
    }

    private static List<byte> RecordTypes(ReadOnlySpan<byte> records)
    {
        List<byte> types = [];
        for (; !records.IsEmpty;
            records = records[(5 + System.Buffers.Binary.BinaryPrimitives.ReadUInt16BigEndian(records[3..]))..])
            types.Add(records[0]);
        return types;
    }

    [Fact]
    public void Data_after_the_proper_end_is_not_delivered()
    {
        using TlsPair pair = Pair().Shake();
        pair.Client.Send(s_hello);
        pair.Client.CloseNotify();
        pair.Move();
        int before = pair.Server.Plain.Count;
        pair.Server.Feed([0x17, 3, 3, 0, 20, .. new byte[20]]);
        Assert.Equal(before, pair.Server.Plain.Count);
        Assert.Equal([TlsStep.PeerClosed], pair.Server.Ends);
    }
}
