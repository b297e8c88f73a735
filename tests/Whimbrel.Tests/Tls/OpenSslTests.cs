using System.Net.Security;
using System.Security.Authentication;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using Whimbrel.Conformance;
using Whimbrel.Tls;

namespace Whimbrel.Tests.Tls;

/// <summary>Specific to the direct OpenSSL provider: its hazards (docs/design/0017), options, sessions.</summary>
public sealed class OpenSslTests
{
    private static readonly byte[] s_hello = "hello, this is a client"u8.ToArray();

    // ------------------------------------------------------------------ unreadable certificates

    [Fact]
    public void A_certificate_with_an_unreadable_validity_is_refused_without_an_exception()
    {
        // The second UTCTime of a certificate is its notAfter. An invalid date is only detected in OpenSSL's callback.
        byte[] der = TestCertificates.Server.RawData;
        int from = 2 + der.AsSpan().IndexOf((ReadOnlySpan<byte>)[0x17, 0x0D]),
            to = from + der.AsSpan(from).IndexOf((ReadOnlySpan<byte>)[0x17, 0x0D]) + 2;
        der.AsSpan(to, 12).Fill((byte)'X');
        using X509Certificate2 leaf = X509CertificateLoader.LoadCertificate(der);
        Assert.Throws<System.Security.Cryptography.CryptographicException>(() => leaf.NotAfter);
        Assert.Equal(OpenSslPeer.AlertErrorOf(TestCertificates.Server), OpenSslPeer.AlertErrorOf(leaf));
    }

    // ------------------------------------------------------------------ foreign errors

    [Fact]
    public void Foreign_errors_in_the_threads_error_queue_are_not_taken_for_an_error_of_the_connection()
    {
        using TlsPair pair = OpenSslRig.Pair();
        OpenSslRig.LeaveErrorInQueue();
        pair.Client.Start();
        for (int i = 0; i < 4; i++)
        {
            OpenSslRig.LeaveErrorInQueue();
            pair.Server.Feed([.. pair.Client.Output]);
            pair.Client.Output.Clear();
            OpenSslRig.LeaveErrorInQueue();
            pair.Client.Feed([.. pair.Server.Output]);
            pair.Server.Output.Clear();
        }

        OpenSslRig.LeaveErrorInQueue();
        pair.Server.Receive();
        OpenSslRig.LeaveErrorInQueue();
        pair.Talk();
        pair.Client.CloseNotify();
        OpenSslRig.LeaveErrorInQueue();
        pair.Move();
        Assert.Equal([TlsStep.PeerClosed], pair.Server.Ends);
    }

    // ------------------------------------------------------------------ every byte, every seed

    [Theory]
    [InlineData(SslProtocols.Tls12)]
    [InlineData(SslProtocols.Tls13)]
    public void A_connection_that_is_cut_at_any_byte_of_the_handshake_ends_and_leaves_nothing(SslProtocols version)
    {
        OpenSslProfile server = OpenSslRig.Prepare(TestCertificates.ServerOptions, true),
            client = OpenSslRig.Prepare(OpenSslRig.Client(version), false);
        using TlsPair measure = new TlsPair(server, client).Shake();
        long all = measure.Moved.FromClient + measure.Moved.FromServer;
        for (int cut = 0; cut < all; cut += 13)
        {
            using TlsPair pair = new(server, client);
            pair.Client.Start();
            int left = cut;
            while (left > 0)
            {
                (TlsEnd from, TlsEnd to) =
                    pair.Client.Output.Count > 0 ? (pair.Client, pair.Server) : (pair.Server, pair.Client);
                int count = Math.Min(left, from.Output.Count);
                if (count == 0) break;
                byte[] piece = [.. from.Output.Take(count)];
                from.Output.RemoveRange(0, count);
                left -= count;
                to.Feed(piece);
            }

            bool serverWasReady = pair.Server.IsReady, clientWasReady = pair.Client.IsReady;
            pair.Server.EndOfInput();
            pair.Client.EndOfInput();
            if (pair.Server.Layer is not null)
                Assert.Equal([serverWasReady ? TlsStep.Truncated : TlsStep.Refused], pair.Server.Ends);
            Assert.Equal([clientWasReady ? TlsStep.Truncated : TlsStep.Refused], pair.Client.Ends);
        }
    }

    [Fact]
    public void Random_splits_sizes_outputs_stops_and_versions_lose_no_byte()
    {
        foreach (int seed in Seeds.Some(6))
        {
            Random random = new(seed);
            SslProtocols version = random.Next(2) == 0 ? SslProtocols.Tls12 : SslProtocols.Tls13;
            using TlsPair pair = OpenSslRig.Pair(client: OpenSslRig.Client(version), split: random.Next(1, 3000),
                outputBytes: random.Next(CipherBlock.LeastBytes, 40_000)).Shake();
            List<byte> toServer = [], toClient = [];
            pair.Server.StopAfter = 1;
            for (int i = 0; i < 60; i++)
            {
                pair.Split = random.Next(1, 20_000);
                byte[] bytes = new byte[random.Next(1, random.Next(2, 40_000))];
                random.NextBytes(bytes);
                bool fromClient = random.Next(2) == 0;
                (fromClient ? toServer : toClient).AddRange(bytes);
                (fromClient ? pair.Client : pair.Server).Send(bytes);
                if (version == SslProtocols.Tls13 && random.Next(5) == 0)
                {
                    OpenSslRig.UpdateKeys(pair.Client, random.Next(2));
                    toServer.AddRange(s_hello);
                    pair.Client.Send(s_hello);
                }

                if (random.Next(3) > 0) pair.Move();
            }

            pair.Move();
            for (int i = 0; i < 5000 && (pair.Server.WaitingInput > 0 || pair.Server.Plain.Count < toServer.Count); i++)
                pair.Server.Receive();
            pair.Move();
            Assert.Equal(toServer.ToArray(), pair.Server.Plain.ToArray());
            Assert.Equal(toClient.ToArray(), pair.Client.Plain.ToArray());
            Assert.False(pair.Server.HasEnded || pair.Client.HasEnded, $"{pair.Server.Fault} {pair.Client.Fault}");
        }
    }

    [Fact]
    public void Changed_bytes_at_any_place_end_it_with_a_reason_and_never_deliver_what_was_not_sent()
    {
        foreach (int seed in Seeds.Some(150))
        {
            Random random = new(seed);
            SslProtocols version = random.Next(2) == 0 ? SslProtocols.Tls12 : SslProtocols.Tls13;
            using TlsPair pair = OpenSslRig.Pair(client: OpenSslRig.Client(version));
            pair.Client.Start();
            int steps = random.Next(4);
            for (int i = 0; i < steps; i++) Step(pair);
            TlsEnd from = pair.Client.Output.Count > 0 ? pair.Client : pair.Server;
            TlsEnd to = ReferenceEquals(from, pair.Client) ? pair.Server : pair.Client;
            if (pair.Client.IsReady && pair.Server.IsReady) pair.Client.Send(s_hello);
            Damage(from.Output, random);
            pair.Move();
            if (to.IsReady && from.IsReady && !to.HasEnded && !from.HasEnded)
            {
                from.Send(s_hello);
                pair.Move();
            }

            to.EndOfInput();
            byte[] all = [.. s_hello, .. s_hello];
            Assert.True(all.AsSpan().StartsWith(to.Plain.ToArray()), $"seed {seed}");
            foreach (TlsEnd end in (TlsEnd[])[to, from])
            {
                if (end.Ends is [TlsStep.Refused, ..])
                    Assert.False(string.IsNullOrEmpty(end.Fault.Message), $"seed {seed}");
            }
        }
    }

    private static void Step(TlsPair pair)
    {
        (TlsEnd from, TlsEnd to) =
            pair.Client.Output.Count > 0 ? (pair.Client, pair.Server) : (pair.Server, pair.Client);
        byte[] piece = [.. from.Output];
        from.Output.Clear();
        to.Feed(piece);
    }

    private static void Damage(List<byte> bytes, Random random)
    {
        if (bytes.Count == 0) return;
        switch (random.Next(4))
        {
            case 0:
                bytes[random.Next(bytes.Count)] ^= (byte)random.Next(1, 256);
                break;
            case 1:
                bytes.RemoveRange(random.Next(bytes.Count), 1);
                break;
            case 2:
                bytes.Insert(random.Next(bytes.Count), (byte)random.Next(256));
                break;
            default:
                byte[] noise = new byte[random.Next(1, 500)];
                random.NextBytes(noise);
                bytes.AddRange(noise);
                break;
        }
    }

    // ------------------------------------------------------------------ sessions and tickets

    [Theory]
    [InlineData(SslProtocols.Tls12)]
    [InlineData(SslProtocols.Tls13)]
    public void A_client_with_a_certificate_over_an_intermediate_resumes_and_is_judged_again(SslProtocols version)
    {
        X509Certificate2 leaf = TestCertificates.Make("deep client", forServers: false,
            issuer: TestCertificates.Intermediate);
        int judged = 0;
        bool isWelcome = true;
        OpenSslProfile server = OpenSslRig.Prepare(
            new TlsOptions
            {
                Certificate = TlsCertificate.From(TestCertificates.Server),
                ClientCertificates = TlsClientCertificates.Required,
                Roots = TestCertificates.Roots,
                Verify = v =>
                {
                    judged++;
                    return v.IsTrusted && isWelcome;
                },
            },
            true);
        OpenSslProfile client = OpenSslRig.Prepare(
            new TlsOptions
            {
                HostName = "chat.test",
                Roots = TestCertificates.Roots,
                Protocols = version,
                Certificate = TlsCertificate.From(leaf, [TestCertificates.Intermediate])
            }, false);
        for (int i = 0; i < 3; i++)
        {
            using TlsPair pair = new TlsPair(server, client).Shake();
            pair.Talk();
            Assert.Equal(i > 0, pair.Server.Layer!.Info.IsResumed);
            Assert.Equal("CN=deep client", pair.Server.Layer.Info.PeerCertificate?.Subject);
            Assert.Equal(i + 1, judged);
        }

        // A client that was accepted earlier and is rejected now must not get in by session resumption.
        isWelcome = false;
        using TlsPair late = new TlsPair(server, client).Shake();
        Assert.False(late.Server.IsReady);
        Assert.Equal(TlsFailure.CertificateRejected, late.Server.Fault.Cause);
    }

    [Fact]
    public void Ticket_keys_are_replaced_after_their_life_and_old_tickets_only_cost_a_full_handshake()
    {
        TlsOptions options = new()
        {
            Certificate = TlsCertificate.From(TestCertificates.Server),
            TicketKeyLifetime = TimeSpan.FromHours(1)
        };
        OpenSslProfile server = OpenSslRig.Prepare(options, true),
            client = OpenSslRig.Prepare(TestCertificates.ClientOptions, false);
        TlsKeyPair pair = options.Certificate.Take();
        OpenSslSetup first = server.SetupFor(pair);
        Assert.Same(first, server.SetupFor(pair, first.MadeAtMs + 3_599_999));
        using (TlsPair one = new TlsPair(server, client).Shake()) one.Talk();
        using (TlsPair two = new TlsPair(server, client).Shake())
        {
            two.Talk();
            Assert.True(two.Server.Layer!.Info.IsResumed);
        }

        OpenSslSetup second = server.SetupFor(pair, first.MadeAtMs + 3_600_000);
        Assert.NotSame(first, second);
        using TlsPair three = new TlsPair(server, client).Shake();
        three.Talk();
        Assert.False(three.Server.Layer!.Info.IsResumed);
    }

    [Theory]
    [InlineData(SslProtocols.Tls12)]
    [InlineData(SslProtocols.Tls13)]
    public void A_session_of_one_server_is_resumed_at_another_with_the_same_secret_until_it_is_replaced(
        SslProtocols protocol)
    {
        byte[] secret = RandomNumberGenerator.GetBytes(32);
        TlsTicketKeys first = new(secret), second = new(secret);
        OpenSslProfile one = Server(first), two = Server(second), stranger = Server(new(new byte[32]));
        OpenSslProfile client = OpenSslRig.Prepare(TestCertificates.ClientOptions, false);
        Assert.False(IsResumed(one));
        Assert.True(IsResumed(two));
        Assert.True(IsResumed(one));
        Assert.False(IsResumed(stranger));
        Assert.False(IsResumed(two)); // its ticket is of the stranger
        second.Replace(RandomNumberGenerator.GetBytes(48));
        Assert.False(IsResumed(two));
        Assert.False(IsResumed(one));
        first.Replace(second.Secret);
        Assert.False(IsResumed(one)); // its ticket has the old key
        Assert.True(IsResumed(two));
        Assert.True(IsResumed(one));

        OpenSslProfile Server(TlsTicketKeys keys) => OpenSslRig.Prepare(new TlsOptions
        {
            Certificate = TlsCertificate.From(TestCertificates.Server), TicketKeys = keys, Protocols = protocol,
        }, true);

        bool IsResumed(OpenSslProfile server)
        {
            using TlsPair pair = new TlsPair(server, client).Shake();
            pair.Talk();
            return pair.Server.Layer!.Info.IsResumed;
        }
    }

    [Fact]
    public void A_short_secret_and_two_lives_of_ticket_keys_are_mistakes()
    {
        Assert.Contains("has 31 bytes, and needs 32", Assert.Throws<ArgumentException>(
            static () => new TlsTicketKeys(new byte[31])).Message, StringComparison.Ordinal);
        TlsOptions options = new() { TicketKeys = new(new byte[32]), TicketKeyLifetime = TimeSpan.FromHours(1) };
        Assert.Equal(nameof(options.TicketKeys), new TlsOptions { TicketKeys = options.TicketKeys }.NeedsOpenSsl);
        OptionErrors errors = new("TLS");
        options.Validate(errors, isServer: true);
        Assert.Contains(errors.Mistakes, static m => m.EndsWith("replaced by TlsTicketKeys.Replace: set one of them",
            StringComparison.Ordinal));
    }

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    [InlineData(3)]
    public void A_server_issues_the_configured_number_of_tickets(int count)
    {
        TlsOptions options = new()
        {
            Certificate = TlsCertificate.From(TestCertificates.Server),
            TicketCount = count,
            TicketLifetime = TimeSpan.FromSeconds(90)
        };
        OpenSslProfile client = OpenSslRig.Prepare(TestCertificates.ClientOptions, false),
            server = OpenSslRig.Prepare(options, true);
        using TlsPair pair = new TlsPair(server, client).Shake();
        pair.Talk();
        Assert.Equal(count > 0 ? 1 : 0, client.Sessions.Count);
        using TlsPair again = new TlsPair(server, client).Shake();
        again.Talk();
        Assert.Equal(count > 0, again.Server.Layer!.Info.IsResumed);
    }

    [Fact]
    public void A_client_keeps_the_newest_session_of_a_bounded_number_of_names()
    {
        OpenSslProfile server = OpenSslRig.Prepare(TestCertificates.ServerOptions, true);
        OpenSslProfile client =
            OpenSslRig.Prepare(new TlsOptions { PinnedKeys = [TlsCertificate.PinOf(TestCertificates.Server)] }, false);
        for (int i = 0; i < OpenSslSessions.MostNames + 40; i++)
        {
            using TlsPair pair = new TlsPair(server, client, $"n{i}.test").Shake();
            pair.Talk();
        }

        Assert.Equal(OpenSslSessions.MostNames, client.Sessions.Count);
        using TlsPair kept = new TlsPair(server, client, $"n{OpenSslSessions.MostNames + 39}.test").Shake();
        kept.Talk();
        Assert.True(kept.Client.Layer!.Info.IsResumed);
        using TlsPair forgotten = new TlsPair(server, client, "n0.test").Shake();
        forgotten.Talk();
        Assert.False(forgotten.Client.Layer!.Info.IsResumed);
    }

    // ------------------------------------------------------------------ certificates, keys, options

    [Fact]
    public void A_new_certificate_serves_the_next_handshakes_and_leaves_running_connections_alone()
    {
        string file = Path.GetTempFileName();
        try
        {
            Write(file, TestCertificates.Make("before", "chat.test"));
            TlsOptions options = new() { Certificate = TlsCertificate.FromPemFile(file) };
            OpenSslProfile server = OpenSslRig.Prepare(options, true),
                client = OpenSslRig.Prepare(TestCertificates.ClientOptions, false);
            using TlsPair running = new TlsPair(server, client).Shake();
            running.Talk();
            TlsPair half = new(server, client);
            half.Client.Start();
            Step(half);

            Write(file, TestCertificates.Make("after", "chat.test"));
            options.Certificate.Reload();
            using TlsPair next = new TlsPair(server, OpenSslRig.Prepare(TestCertificates.ClientOptions, false)).Shake();
            next.Talk();
            Assert.Equal("CN=after", next.Client.Layer!.Info.PeerCertificate?.Subject);
            running.Talk();
            Assert.Equal("CN=before", running.Client.Layer!.Info.PeerCertificate?.Subject);

            // The old context is removed from the profile, and a handshake that began with it still succeeds.
            GC.Collect();
            GC.WaitForPendingFinalizers();
            half.Move();
            half.Talk();
            running.Talk();
            half.Dispose();
        }
        finally
        {
            File.Delete(file);
        }
    }

    private static void Write(string file, X509Certificate2 certificate)
    {
        using ECDsa key = certificate.GetECDsaPrivateKey()!;
        File.WriteAllText(file, certificate.ExportCertificatePem() + "\n" + key.ExportPkcs8PrivateKeyPem());
    }

    [Fact]
    public void Keys_of_both_kinds_are_shared_with_the_framework_or_copied()
    {
        foreach (X509Certificate2 leaf in (X509Certificate2[])[TestCertificates.Server,
            TestCertificates.Make("rsa", "chat.test", rsaBits: 2048)])
        {
            using TlsPair pair = OpenSslRig.Pair(new TlsOptions { Certificate = TlsCertificate.From(leaf) }).Shake();
            pair.Talk();
            OpenSslSetup setup = OpenSslRig.Prepare(TestCertificates.ServerOptions, true)
                .SetupFor(TestCertificates.ServerOptions.Certificate!.Take());
            using AsymmetricAlgorithm key = (AsymmetricAlgorithm?)leaf.GetECDsaPrivateKey() ?? leaf.GetRSAPrivateKey()!;
            // The private key does not match the present certificate, which is detected.
            Assert.Equal(ReferenceEquals(leaf, TestCertificates.Server),
                OpenSslKey.GiveCopy(setup.Handle, key) && OpenSslApi.ContextCheckPrivateKey(setup.Handle) == 1);
            GC.KeepAlive(setup);
        }
    }

    [Fact]
    public void Suites_of_one_version_only_leave_the_other_version_out_and_an_unknown_one_is_named()
    {
        TlsOptions classic = new()
        {
            Certificate = TlsCertificate.From(TestCertificates.Server),
            CipherSuites = [TlsCipherSuite.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
                TlsCipherSuite.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]
        };
        using TlsPair pair = OpenSslRig.Pair(classic).Shake();
        pair.Talk();
        Assert.Equal(SslProtocols.Tls12, pair.Server.Layer!.Info.Protocol);
        Assert.Equal(TlsCipherSuite.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, pair.Server.Layer.Info.CipherSuite);

        // The server's order of preference counts.
        TlsOptions reversed = new()
        {
            Certificate = TlsCertificate.From(TestCertificates.Server),
            CipherSuites = [.. classic.CipherSuites.Reverse()]
        };
        using TlsPair other = OpenSslRig.Pair(reversed).Shake();
        Assert.Equal(TlsCipherSuite.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, other.Server.Layer!.Info.CipherSuite);

        ArgumentException unknown = Assert.Throws<ArgumentException>(() => OpenSslRig.Prepare(new TlsOptions
        {
            Certificate = TlsCertificate.From(TestCertificates.Server),
            CipherSuites = [TlsCipherSuite.TLS_KRB5_WITH_DES_CBC_SHA]
        }, true));
        Assert.Contains("TLS_KRB5_WITH_DES_CBC_SHA", unknown.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Parameters_for_DHE_come_from_a_file_and_a_bad_file_is_named()
    {
        // The 2048-bit group of RFC 7919, in the format of openssl dhparam.
        const string group = """
            -----BEGIN DH PARAMETERS-----
            MIIBDAKCAQEA//////////+t+FRYortKmq/cViAnPTzx2LnFg84tNpWp4TZBFGQz
            +8yTnc4kmz75fS/jY2MMddj2gbICrsRhetPfHtXV/WVhJDP1H18GbtCFY2VVPe0a
            87VXE15/V8k1mE8McODmi3fipona8+/och3xWKE2rec1MKzKT0g6eXq8CrGCsyT7
            YdEIqUuyyOP7uWrat2DX9GgdT0Kj3jlN9K5W7edjcrsZCwenyO4KbXCeAvzhzffi
            7MA0BM0oNC9hkXL+nOmFg/+OTxIy7vKBg8P+OxtMb61zO7X8vC7CIAXFjvGDfRaD
            ssbzSibBsu/6iGtCOGEoXJf//////////wIBAgICAQE=
            -----END DH PARAMETERS-----
            """;
        string file = Path.GetTempFileName();
        try
        {
            File.WriteAllText(file, group);
            TlsOptions options = new()
            {
                Certificate = TlsCertificate.From(TestCertificates.Make("rsa", "chat.test", rsaBits: 2048)),
                Protocols = SslProtocols.Tls12,
                CipherSuites = [TlsCipherSuite.TLS_DHE_RSA_WITH_AES_128_GCM_SHA256],
                DhParametersFile = file,
            };
            using TlsPair pair = OpenSslRig.Pair(options).Shake();
            pair.Talk();
            Assert.Equal(TlsCipherSuite.TLS_DHE_RSA_WITH_AES_128_GCM_SHA256, pair.Server.Layer!.Info.CipherSuite);

            File.WriteAllText(file, "nothing");
            ArgumentException bad = Assert.Throws<ArgumentException>(() => OpenSslRig.Prepare(options, true));
            Assert.Contains("DhParametersFile", bad.Message, StringComparison.Ordinal);
        }
        finally
        {
            File.Delete(file);
        }
    }

    [Fact]
    public void It_stays_away_where_the_framework_may_use_another_OpenSSL()
    {
        Assert.Contains("DOTNET_OPENSSL_VERSION_OVERRIDE",
            OpenSslLibrary.Load(static name => name == "DOTNET_OPENSSL_VERSION_OVERRIDE" ? "1.1" : null).Refusal ?? "",
            StringComparison.Ordinal);
        if (OpenSslLibrary.IsUsable) Assert.StartsWith("3.", OpenSslLibrary.Version, StringComparison.Ordinal);
    }

    [Fact]
    public void Requesting_OpenSSL_or_a_feature_that_only_it_has_selects_it_and_gives_the_reason()
    {
        Assert.SkipUnless(OpenSslLibrary.IsUsable, OpenSslLibrary.Refusal ?? "");
        TlsCertificate certificate = TlsCertificate.From(TestCertificates.Server);
        TlsProfile asked = TlsSelector.Prepare(
            new TlsOptions { Certificate = certificate, Provider = TlsProvider.OpenSsl }, isServer: true);
        Assert.Equal((TlsProvider.OpenSsl, "TlsOptions.Provider says so"), (asked.Provider, asked.Reason));
        TlsProfile needed = TlsSelector.Prepare(new TlsOptions { Certificate = certificate, TicketCount = 2 },
            isServer: true);
        Assert.Equal((TlsProvider.OpenSsl, "Auto: TicketCount needs it"), (needed.Provider, needed.Reason));
        TlsProfile best = TlsSelector.Prepare(new TlsOptions { Certificate = certificate }, isServer: true);
        Assert.Equal((TlsProvider.OpenSsl, "Auto: OpenSsl can do everything, for less"), (best.Provider, best.Reason));
    }

    // ------------------------------------------------------------------ cost

    [Fact]
    public void Messages_allocate_nothing()
    {
        using OpenSslEcho echo = new(TestCertificates.ServerOptions,
            new TlsOptions { HostName = "chat.test", Roots = TestCertificates.Roots });
        Assert.Equal(0, Allocated.By(() =>
        {
            for (int i = 0; i < 1000; i++) echo.PingPong(32);
        }));
    }
}
