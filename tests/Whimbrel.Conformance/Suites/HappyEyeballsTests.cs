#if MEMORY
using System.Net;
using System.Net.Sockets;
using Whimbrel.Testing;

namespace Whimbrel.Conformance;

/// <summary>Connects to names and to several addresses in virtual time: the order, the head start, and every end in
/// every phase.</summary>
public sealed class HappyEyeballsTests() : Suite(Transport.MemoryTcp)
{
    private const int Port = 4000;

    private static readonly IPAddress s_six1 = IPAddress.Parse("2001:db8::1");
    private static readonly IPAddress s_six2 = IPAddress.Parse("2001:db8::2");
    private static readonly IPAddress s_six3 = IPAddress.Parse("2001:db8::3");
    private static readonly IPAddress s_four1 = IPAddress.Parse("192.0.2.1");
    private static readonly IPAddress s_four2 = IPAddress.Parse("192.0.2.2");

    private static void Test(Action<MemoryRig> test, int loops = 2)
    {
        HappyEyeballsTests suite = new();
        suite.Run(rig => test((MemoryRig)rig), loops);
    }

    private static IPEndPoint At(IPAddress address) => new IPEndPoint(address, Port);

    private static RecordingServer ServeAt(MemoryRig rig, IPAddress address) =>
        rig.Serve(null, new ServerOptions { Engine = rig.Engine, EndPoint = At(address) });

    private static RecordingClient ClientOf(MemoryRig rig, params string[] names) =>
        rig.MakeClient(new ClientOptions
        {
            Engine = rig.Engine,
            EndPoints = [.. names.Select(static n => new DnsEndPoint(n, Port))]
        });

    private static void BlackHoles(MemoryRig rig, params IPAddress[] addresses)
    {
        foreach (IPAddress address in addresses) rig.Memory.AddBlackHole(At(address));
    }

    /// <summary>Connects, and returns the virtual time it took.</summary>
    private static long Time(MemoryRig rig, Action act)
    {
        long start = rig.Memory.VirtualTimeMs;
        act();
        return rig.Memory.VirtualTimeMs - start;
    }

    private static void NothingIsLeft(MemoryRig rig)
    {
        rig.Until(() => rig.Engine.Loops.All(static l => l.ResidentCount == 0), "all sockets to be closed");
        Assert.All(rig.Engine.Loops, static l => Assert.Equal(0, l.Timers.Count));
    }

    // ------------------------------------------------------------------ order and head start

    [Theory]
    [InlineData(0, 0)]
    [InlineData(1, 2)]
    [InlineData(2, 4)]
    [InlineData(3, 1)]
    [InlineData(4, 3)]
    public void The_families_of_a_name_take_turns_and_each_address_has_a_head_start_of_a_quarter_second(int alive,
        int place) => Test(rig =>
        {
            IPAddress[] addresses = [s_six1, s_six2, s_six3, s_four1, s_four2];
            rig.Memory.AddHost("many", addresses);
            BlackHoles(rig, [.. addresses.Where((_, i) => i != alive)]);
            RecordingServer server = ServeAt(rig, addresses[alive]);
            RecordingClient client = ClientOf(rig, "many");
            Assert.Equal(place * 250,
                Time(rig, () => Assert.Equal(server.EndPoint, rig.Connect(client).RemoteEndPoint)));
            server.Connected();
            // The losing attempts are closed: the listener and the two ends remain.
            rig.Until(() => rig.Engine.Loops.Sum(static l => l.ResidentCount) == 3, "the losers to be closed");
            Assert.All(rig.Engine.Loops, static l => Assert.Equal(0, l.Timers.Count));
        });

    [Fact]
    public void The_family_that_the_system_prefers_is_first() => Test(rig =>
    {
        rig.Memory.AddHost("four-first", s_four1, s_four2, s_six1);
        BlackHoles(rig, s_four1, s_four2);
        ServeAt(rig, s_six1);
        Assert.Equal(250, Time(rig, () => rig.Connect(ClientOf(rig, "four-first"))));
    });

    [Fact]
    public void A_refused_address_is_followed_by_the_next_at_once() => Test(rig =>
    {
        rig.Memory.AddHost("half", s_six1, s_four1);
        RecordingServer server = ServeAt(rig, s_four1);
        RecordingClient client = ClientOf(rig, "half");
        Assert.Equal(0, Time(rig, () => Assert.Equal(server.EndPoint, rig.Connect(client).RemoteEndPoint)));
        Assert.Single(client.Made);
    });

    [Fact]
    public void An_attempt_that_fails_late_does_not_cost_the_others_their_head_start() => Test(rig =>
    {
        // 0 ms: the first address is tried and does not respond. 250 ms: the second is refused, and the third follows
        // immediately.
        rig.Memory.AddHost("mixed", s_six1, s_four1, s_six2);
        BlackHoles(rig, s_six1);
        ServeAt(rig, s_six2);
        Assert.Equal(250, Time(rig, () => rig.Connect(ClientOf(rig, "mixed"))));
    });

    [Fact]
    public void With_both_alive_the_first_wins_and_the_server_sees_one_connection() => Test(rig =>
    {
        rig.Memory.AddHost("both", s_six1, s_four1);
        RecordingServer six = ServeAt(rig, s_six1);
        RecordingServer four = ServeAt(rig, s_four1);
        Assert.Equal(six.EndPoint, rig.Connect(ClientOf(rig, "both")).RemoteEndPoint);
        rig.Pass(TimeSpan.FromSeconds(1));
        Assert.Equal((1, 0), (six.AcceptedCount, four.AcceptedCount));
    });

    [Fact]
    public void End_points_are_tried_in_the_order_given() => Test(rig =>
    {
        BlackHoles(rig, s_four1, s_four2);
        ServeAt(rig, s_six1);
        RecordingClient client = rig.MakeClient(
            new ClientOptions { Engine = rig.Engine, EndPoints = [At(s_four1), At(s_four2), At(s_six1)] });
        Assert.Equal(500, Time(rig, () => rig.Connect(client)));
    });

    [Fact]
    public void With_a_fixed_local_port_attempts_wait_for_each_other() => Test(rig =>
    {
        BlackHoles(rig, s_four1);
        ServeAt(rig, s_four2);
        RecordingClient client = rig.MakeClient(new ClientOptions
        {
            Engine = rig.Engine,
            EndPoints = [At(s_four1), At(s_four2)],
            Socket = new() { LocalEndPoint = IPEndPoint.Parse("192.0.2.9:4001") },
            Timeouts = new() { Connect = TimeSpan.FromSeconds(3) },
        });
        NetworkException e = Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync()));
        Assert.Equal(ErrorCategory.Timeout, e.Error.Category);
        NothingIsLeftButListeners(rig, 1);
    });

    private static void NothingIsLeftButListeners(MemoryRig rig, int listeners) =>
        rig.Until(() => rig.Engine.Loops.Sum(static l => l.ResidentCount) == listeners,
            "only the listeners to be left");

    // ------------------------------------------------------------------ names

    [Fact]
    public void A_lookup_counts_against_the_timeout() => Test(rig =>
    {
        rig.Memory.AddHost("silent", Timeout.InfiniteTimeSpan);
        RecordingClient client = rig.MakeClient(new ClientOptions
        {
            Engine = rig.Engine,
            Address = "tcp://silent:4000",
            Timeouts = new() { Connect = TimeSpan.FromSeconds(7) }
        });
        long took = Time(rig, () =>
        {
            NetworkException e = Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync()));
            Assert.Equal(ErrorCategory.Timeout, e.Error.Category);
            Assert.Contains("the name was not resolved in time", e.Message, StringComparison.Ordinal);
        });
        Assert.Equal(7_000, took);
        Assert.Equal("connecting, connect failed TimedOut", client.Attempt().Life);
        NothingIsLeft(rig);
    });

    [Fact]
    public void A_slow_look_up_delays_the_connect_and_nothing_else() => Test(rig =>
    {
        rig.Memory.AddHost("slow", TimeSpan.FromSeconds(3), s_six1, s_four1);
        BlackHoles(rig, s_six1);
        ServeAt(rig, s_four1);
        Assert.Equal(3_250, Time(rig, () => rig.Connect(ClientOf(rig, "slow"))));
    });

    [Fact]
    public void A_name_without_an_answer_does_not_hold_up_the_next_end_point() => Test(rig =>
    {
        rig.Memory.AddHost("silent", Timeout.InfiniteTimeSpan);
        rig.Memory.AddHost("good", s_four1);
        ServeAt(rig, s_four1);
        Assert.Equal(0, Time(rig, () => rig.Connect(ClientOf(rig, "silent", "good"))));
    });

    [Fact]
    public void A_lookup_result_during_a_head_start_waits_for_its_end() => Test(rig =>
    {
        rig.Memory.AddHost("slow", TimeSpan.FromMilliseconds(100), s_six1);
        rig.Memory.AddHost("hole", s_four1);
        BlackHoles(rig, s_four1);
        ServeAt(rig, s_six1);
        Assert.Equal(250, Time(rig, () => rig.Connect(ClientOf(rig, "hole", "slow"))));
        rig.Memory.AddHost("slower", TimeSpan.FromMilliseconds(400), s_six1);
        Assert.Equal(400, Time(rig, () => rig.Connect(ClientOf(rig, "hole", "slower"))));
    });

    [Fact]
    public void An_unknown_name_is_reported_at_once_unless_another_end_point_answers() => Test(rig =>
    {
        rig.Memory.AddHost("good", s_four1);
        ServeAt(rig, s_four1);
        rig.Connect(ClientOf(rig, "nobody", "good"));
        Assert.Equal(0, Time(rig, () => Assert.Equal(ErrorCategory.UnknownHost,
            Assert.Throws<NetworkException>(() => rig.Await(ClientOf(rig, "nobody").ConnectAsync())).Error.Category)));
    });

    [Fact]
    public void A_name_with_invalid_addresses_is_unknown() => Test(rig =>
    {
        // Responses of DNS filters. A connect to them would reach this machine.
        rig.Memory.AddHost("filtered", IPAddress.Any, IPAddress.IPv6Any);
        rig.Memory.AddHost("four", s_four1);
        ServeAt(rig, IPAddress.Any);
        Assert.Equal(ErrorCategory.UnknownHost,
            Assert.Throws<NetworkException>(() => rig.Await(ClientOf(rig, "filtered").ConnectAsync())).Error.Category);
        RecordingClient sixOnly = rig.MakeClient(new ClientOptions
        {
            Engine = rig.Engine,
            EndPoint = new DnsEndPoint("four", Port, AddressFamily.InterNetworkV6)
        });
        Assert.Equal(ErrorCategory.UnknownHost,
            Assert.Throws<NetworkException>(() => rig.Await(sixOnly.ConnectAsync())).Error.Category);
    });

    [Fact]
    public void At_most_64_addresses_of_a_name_are_tried() => Test(rig =>
    {
        IPAddress[] six = [.. Enumerable.Range(1, 50).Select(static i => IPAddress.Parse($"2001:db8:1::{i:x}"))];
        IPAddress[] four = [.. Enumerable.Range(1, 50).Select(static i => new IPAddress([192, 0, 2, (byte)i]))];
        rig.Memory.AddHost("hundred", [.. six, .. four]);
        NetworkException e = Assert.Throws<NetworkException>(() => rig.Await(ClientOf(rig, "hundred").ConnectAsync()));
        AggregateException tried = Assert.IsType<AggregateException>(e.InnerException);
        Assert.Equal(64, tried.InnerExceptions.Count);
        Assert.Contains("2001:db8:1::20", tried.InnerExceptions[62].Message, StringComparison.Ordinal);
        Assert.Contains("192.0.2.32", tried.InnerExceptions[63].Message, StringComparison.Ordinal);
    });

    [Fact]
    public void The_trailing_dot_of_a_name_is_not_sent_by_TLS() => Test(rig =>
    {
        rig.Memory.AddHost("chat.test.", s_four1);
        rig.Serve(null, new ServerOptions { Engine = rig.Engine, EndPoint = At(s_four1), Tls = FakeTlsProfile.Server });
        TlsOptions byName =
            new() { Roots = TestCertificates.Roots, Maker = static (o, isServer) => new FakeTlsProfile(o, isServer) };
        RecordingClient client = rig.MakeClient(
            new ClientOptions { Engine = rig.Engine, EndPoint = new DnsEndPoint("chat.test.", Port), Tls = byName });
        Assert.Equal("chat.test", rig.Connect(client).Tls!.ServerName);
    });

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void A_refusal_is_more_specific_than_an_attempt_that_the_system_abandoned(bool refusedFirst) => Test(rig =>
    {
        // The kernel's timeout, before the time limit of the connect.
        rig.Memory.AddFailing(At(s_six1), Whimbrel.Linux.Errno.ETIMEDOUT);
        RecordingClient client = rig.MakeClient(new ClientOptions
        {
            Engine = rig.Engine,
            EndPoints = refusedFirst ? [At(s_four1), At(s_six1)] : [At(s_six1), At(s_four1)]
        });
        Assert.Equal(ErrorCategory.Refused,
            Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync())).Error.Category);
        Assert.Equal("connecting, connect failed Refused", client.Attempt().Life);
    });

    [Fact]
    public void Connects_to_one_name_share_a_lookup() => Test(rig =>
    {
        rig.Memory.AddHost("shared", TimeSpan.FromSeconds(1), s_four1);
        ServeAt(rig, s_four1);
        RecordingClient[] clients = [.. Enumerable.Range(0, 50)
            .Select(i => ClientOf(rig, i % 2 == 0 ? "shared" : "SHARED"))];
        Task<Session>[] attempts = [.. clients.Select(static c => c.ConnectAsync().AsTask())];
        rig.Settle();
        Assert.Equal(1, rig.Engine.Resolver.Count);
        Assert.Equal(1_000, Time(rig, () => rig.Until(
            () => attempts.All(static a => a.IsCompletedSuccessfully), "all to be connected")));
        Assert.Equal(0, rig.Engine.Resolver.Count);
    });

    [Theory]
    [InlineData(31, 0)]
    [InlineData(32, 1_000)]
    public void At_most_32_names_are_looked_up_at_a_time(int busy, long expected) => Test(rig =>
    {
        rig.Memory.AddHost("quick", s_four1);
        ServeAt(rig, s_four1);
        for (int i = 0; i < busy; i++)
        {
            rig.Memory.AddHost($"busy{i}", TimeSpan.FromSeconds(i == 0 ? 1 : 2), s_four1);
            _ = ClientOf(rig, $"busy{i}").ConnectAsync().AsTask();
        }

        rig.Settle();
        Assert.Equal(expected, Time(rig, () => rig.Connect(ClientOf(rig, "quick"))));
    });

    [Fact]
    public void A_queued_look_up_that_is_no_longer_wanted_is_not_started() => Test(rig =>
    {
        for (int i = 0; i < 32; i++)
        {
            rig.Memory.AddHost($"busy{i}", TimeSpan.FromSeconds(1), s_four1);
            _ = ClientOf(rig, $"busy{i}").ConnectAsync().AsTask();
        }

        rig.Settle();
        rig.Memory.AddHost("unwanted", Timeout.InfiniteTimeSpan);
        RecordingClient client = ClientOf(rig, "unwanted");
        ValueTask<Session> connecting = client.ConnectAsync();
        rig.Settle();
        Assert.Equal(33, rig.Engine.Resolver.Count);
        rig.Await(client.DisconnectAsync());
        Assert.Throws<NetworkException>(() => rig.Await(connecting));
        rig.Pass(TimeSpan.FromSeconds(2));
        Assert.Equal(0, rig.Engine.Resolver.Count);
    });

    // ------------------------------------------------------------------ every way out in every phase

    public static TheoryData<string, int, string> WaysOut
    {
        get
        {
            TheoryData<string, int, string> ways = [];
            foreach (string name in (string[])["slow", "holes"])
            {
                foreach (int atMs in (int[])[0, 100, 250, 300])
                {
                    foreach (string way in (string[])["cancel", "close", "abort", "disconnect", "dispose", "engine"])
                        ways.Add(name, atMs, way);
                }
            }

            return ways;
        }
    }

    [Theory]
    [MemberData(nameof(WaysOut), DisableDiscoveryEnumeration = true)]
    public void A_connect_ends_at_once_by_every_way_out_in_every_phase(string name, int atMs, string way) => Test(rig =>
    {
        // "slow" is still being resolved; "holes" has one connector until 250 ms, and then two.
        rig.Memory.AddHost("slow", TimeSpan.FromSeconds(2), s_four1);
        rig.Memory.AddHost("holes", s_six1, s_four1, s_six2);
        BlackHoles(rig, s_six1, s_six2, s_four1);
        RecordingClient client = ClientOf(rig, name);
        using CancellationTokenSource cancellation = new();
        ValueTask<Session> connecting = client.ConnectAsync(cancellation.Token);
        client.Attempt().Until("connecting");
        rig.Pass(TimeSpan.FromMilliseconds(atMs));
        CloseCause expected = way switch
        {
            "cancel" => CloseCause.Cancelled,
            "abort" => CloseCause.LocalAbort,
            "engine" => CloseCause.EngineStopped,
            _ => CloseCause.LocalClose
        };
        long took = Time(rig, () =>
        {
            switch (way)
            {
                case "cancel":
                    cancellation.Cancel();
                    break;
                case "close":
                    client.Attempt().Close();
                    break;
                case "abort":
                    client.Attempt().Abort();
                    break;
                case "disconnect":
                    rig.Await(client.DisconnectAsync());
                    break;
                case "dispose":
                    rig.Await(client.DisposeAsync());
                    break;
                default:
                    rig.Await(rig.Engine.DisposeAsync());
                    break;
            }

            if (way == "cancel") Assert.ThrowsAny<OperationCanceledException>(() => rig.Await(connecting));
            else Assert.Throws<NetworkException>(() => rig.Await(connecting));
        });
        Assert.Equal(0, took);
        Assert.Equal($"connecting, connect failed {expected}", client.Attempt().Life);
        Assert.Null(client.Session);
        if (way == "engine") return;
        rig.Until(() => rig.Engine.Loops.All(static l => l.ResidentCount == 0), "all sockets to be closed");
        // The late result is ignored.
        rig.Pass(TimeSpan.FromSeconds(3));
        NothingIsLeft(rig);
        Assert.Equal(0, rig.Engine.Resolver.Count);
        Assert.Single(client.Made);
    });

    [Fact]
    public void A_connect_to_several_addresses_cancelled_at_any_moment_is_connected_or_cancelled_and_never_both() =>
        Test(rig =>
        {
            rig.Memory.AddHost("a", TimeSpan.FromMilliseconds(3), s_six1, s_four1);
            rig.Memory.AddHost("b", s_four2);
            BlackHoles(rig, s_six1);
            RecordingServer one = ServeAt(rig, s_four1);
            int connected = 0;
            int cancelled = 0;
            Random random = new(rig.Memory.Seed);
            for (int i = 0; i < 60; i++)
            {
                RecordingClient client = ClientOf(rig, "a", "b");
                using CancellationTokenSource cancellation = new();
                Task<Session> connecting = client.ConnectAsync(cancellation.Token).AsTask();
                int steps = random.Next(60);
                for (int s = 0; s < steps && !connecting.IsCompleted; s++) rig.Memory.RunOne();
                cancellation.Cancel();
                rig.Until(() => connecting.IsCompleted, "the connect to end");
                if (connecting.IsCompletedSuccessfully)
                {
                    connected++;
                    Assert.Equal("connecting, connected", client.Attempt().Life);
                    client.Attempt().Abort();
                    client.Attempt().End();
                }
                else
                {
                    cancelled++;
                    Assert.True(connecting.IsCanceled);
                    Assert.Equal("connecting, connect failed Cancelled", client.Attempt().Life);
                }
            }

            Assert.True(cancelled > 0 && connected > 0, $"{cancelled} cancelled, {connected} connected");
            rig.Until(() => one.SessionCount == 0, "the server to notice");
            NothingIsLeftButListeners(rig, 1);
        });

    // ------------------------------------------------------------------ the policy in virtual time

    private static ClientOptions Refused(MemoryRig rig, ReconnectPolicy policy) =>
        new() { Engine = rig.Engine, EndPoint = rig.DeadAddress(), Reconnect = policy };

    [Fact]
    public void Delays_grow_by_the_factor_up_to_the_longest() => Test(rig =>
    {
        RecordingClient client = rig.MakeClient(Refused(rig, new ReconnectPolicy
        {
            InitialDelay = TimeSpan.FromMilliseconds(100),
            MaxDelay = TimeSpan.FromSeconds(1),
            Factor = 3,
            Jitter = false,
            MaxAttempts = 5
        }));
        long took = Time(rig, () => Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync())));
        Assert.Equal([100, 300, 900, 1000, 1000], client.Delays.Select(static d => d.TotalMilliseconds));
        Assert.Equal(3_300, took);
    });

    [Fact]
    public void With_jitter_a_delay_is_anything_up_to_that_and_the_seed_decides() => Test(rig =>
    {
        double[] Delays(int seed)
        {
            MemoryRig other = new(seed, isUnix: false, loops: 2);
            RecordingClient client = other.MakeClient(Refused(other, new ReconnectPolicy
            {
                InitialDelay = TimeSpan.FromMilliseconds(100),
                MaxDelay = TimeSpan.FromMilliseconds(400),
                MaxAttempts = 200
            }));
            Assert.Throws<NetworkException>(() => other.Await(client.ConnectAsync()));
            double[] delays = [.. client.Delays.Select(static d => d.TotalMilliseconds)];
            other.Finish();
            return delays;
        }

        double[] delays = Delays(rig.Memory.Seed);
        Assert.Equal(delays, Delays(rig.Memory.Seed));
        Assert.NotEqual(delays, Delays(rig.Memory.Seed + 1));
        Assert.InRange(delays[0], 0, 100);
        Assert.All(delays, static d => Assert.InRange(d, 0, 400));
        Assert.InRange(delays.Skip(2).Average(), 160, 240);
        Assert.InRange(delays.Skip(2).Max() - delays.Skip(2).Min(), 300, 400);
    });

    [Theory]
    [InlineData(999, 2)]
    [InlineData(1_000, 1)]
    public void A_connection_that_lived_long_enough_restarts_the_count(int livedMs, int attempt) => Test(rig =>
    {
        RecordingServer server = rig.Serve();
        RecordingClient client = rig.MakeClient(new ClientOptions
        {
            Engine = rig.Engine,
            EndPoint = server.EndPoint,
            Reconnect = new ReconnectPolicy
            {
                InitialDelay = TimeSpan.FromMilliseconds(10),
                MaxDelay = TimeSpan.FromMilliseconds(80),
                Jitter = false,
                ResetAfter = TimeSpan.FromSeconds(1)
            }
        });
        rig.Connect(client);
        server.Connected(0).Abort();
        client.Until("reconnected 1");
        long born = rig.Memory.VirtualTimeMs;
        server.Connected(1);
        rig.Pass(TimeSpan.FromMilliseconds(livedMs - (rig.Memory.VirtualTimeMs - born)));
        server.Session(1).Abort();
        client.Made[1].End();
        rig.Until(() => client.Delays.Count == 2, "the second delay");
        Assert.Equal($"reconnecting {attempt}", client.Events[^1]);
        Assert.Equal(attempt == 1 ? 10 : 20, client.Delays[1].TotalMilliseconds);
    });

    [Fact]
    public void Each_outage_has_its_own_delays_attempts_and_time() => Test(rig =>
    {
        RecordingServer server = ServeAt(rig, s_four1);
        // Attempts 100, 300 and 700 ms after the beginning, so that the third is the last by both limits. Only the
        // first connect is not retried.
        ReconnectPolicy policy = new()
        {
            InitialDelay = TimeSpan.FromMilliseconds(100),
            Jitter = false,
            MaxAttempts = 3,
            MaxElapsed = TimeSpan.FromMilliseconds(700),
            ResetAfter = TimeSpan.FromSeconds(1),
            RetryFirstConnect = false
        };
        RecordingClient client =
            rig.MakeClient(new ClientOptions { Engine = rig.Engine, EndPoint = server.EndPoint, Reconnect = policy });
        rig.Connect(client);
        for (int outage = 1; outage <= 3; outage++)
        {
            rig.Pass(TimeSpan.FromSeconds(1));
            rig.Await(server.StopAsync(TimeSpan.Zero));
            int delays = 3 * outage;
            rig.Until(() => client.Delays.Count == delays, "the third attempt");
            int attempts = client.Made.Count + 1;
            rig.Await(server.StartAsync());
            rig.Until(() => client.Made.Count == attempts && client.Made[^1].Saw("connected"), "the connection");
        }

        string[] story = ["connected", .. Enumerable.Repeat((string[])["disconnected PeerReset", "reconnecting 1",
            "reconnecting 2", "reconnecting 3", "connected", "reconnected 3"], 3).SelectMany(static e => e)];
        Assert.Equal(story, client.Events);
        Assert.Equal(Enumerable.Repeat((double[])[100, 200, 400], 3).SelectMany(static d => d),
            client.Delays.Select(static d => d.TotalMilliseconds));

        // And the last one is the last of its own connect.
        rig.Pass(TimeSpan.FromSeconds(1));
        rig.Await(server.StopAsync(TimeSpan.Zero));
        client.Until("gave up Refused");
        Assert.Equal([100, 200, 400], client.Delays.Skip(9).Select(static d => d.TotalMilliseconds));
    });

    [Fact]
    public void A_disconnect_in_the_iteration_in_which_the_wait_ends_wins() => Test(
        rig =>
        {
            TimeSpan delay = TimeSpan.FromSeconds(1);
            RecordingServer server = rig.Serve();
            RecordingClient client = rig.MakeClient(new ClientOptions
            {
                Engine = rig.Engine,
                EndPoint = server.EndPoint,
                Reconnect = new ReconnectPolicy { InitialDelay = delay, Jitter = false }
            });
            ValueTask disconnected = default;
            client.OnEvent = text =>
            {
                // Due at the same time and started earlier, it fires first; the disconnect's post is processed in the
                // next iteration.
                if (text == "reconnecting 1")
                    Loop.Current!.StartTimer(delay, _ => disconnected = client.DisconnectAsync());
            };
            rig.Connect(client);
            server.Connected().Abort();
            client.Until("reconnecting 1");
            rig.Pass(TimeSpan.FromSeconds(5));
            Assert.True(disconnected.IsCompletedSuccessfully);
            Assert.Single(client.Made);
            Assert.Equal("connected, disconnected PeerReset, reconnecting 1", client.Story);
            Assert.Equal(0, server.SessionCount);
        },
        loops: 1);

    [Theory]
    [InlineData(300, 2)]
    [InlineData(299, 1)]
    public void No_attempt_begins_after_the_longest_time(int longestMs, int attempts) => Test(rig =>
    {
        // Attempts at 100 and 300 ms.
        RecordingClient client = rig.MakeClient(Refused(rig, new ReconnectPolicy
        {
            InitialDelay = TimeSpan.FromMilliseconds(100),
            Jitter = false,
            MaxElapsed = TimeSpan.FromMilliseconds(longestMs)
        }));
        Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync()));
        Assert.Equal(attempts, client.Delays.Count);
        Assert.Equal("gave up Refused", client.Events[^1]);
    });

    [Fact]
    public void The_power_of_many_attempts_does_not_overflow()
    {
        ReconnectPolicy policy = new() { Factor = 100, Jitter = false };
        Assert.Equal(policy.MaxDelay, policy.DelayBefore(int.MaxValue, 0.5));
        Assert.Equal(policy.InitialDelay, policy.DelayBefore(1, 0));
        Assert.Equal(TimeSpan.Zero, new ReconnectPolicy().DelayBefore(5, 0));
    }
}
#endif
