using System.Net;

namespace Whimbrel.Conformance;

/// <summary>A client of a protocol with an opening handshake: a connection counts after it, and an earlier end is a
/// failed connect.</summary>
public abstract class OpeningSuite(Transport transport) : Suite(transport)
{
    private static readonly TimeSpan s_soon = TimeSpan.FromMilliseconds(5);

    private static ReconnectPolicy Quick(int? attempts = null, bool retryFirst = true) =>
        new()
        {
            InitialDelay = s_soon,
            MaxDelay = s_soon,
            MaxAttempts = attempts,
            RetryFirstConnect = retryFirst,
            ResetAfter = TimeSpan.Zero
        };

    /// <summary>The first bytes of the peer are the opening. Failures are explained, and <paramref name="explained"/>
    /// collects them.</summary>
    private static RecordingClient Make(Rig rig, EndPoint endPoint, List<NetworkException> explained,
        ReconnectPolicy? policy = null, Action<RecordingSession>? setUp = null)
    {
        RecordingClient? client = null;
        client = rig.MakeClient(new ClientOptions { Engine = rig.Engine, EndPoint = endPoint, Reconnect = policy }, s =>
        {
            s.AtReceived = (x, _) => client!.CallNoteOpened(x);
            setUp?.Invoke(s);
        });
        client.Opens = true;
        client.Explains = failure =>
        {
            explained.Add(failure);
            return new InvalidDataException("explained", failure);
        };
        return client;
    }

    private static Exception Fails(Rig rig, Task<Session> connecting)
    {
        rig.Until(() => connecting.IsCompleted, "the connect to fail");
        return Assert.ThrowsAny<Exception>(() => connecting.GetAwaiter().GetResult());
    }

    [Fact, Contract(1)]
    public void A_connect_completes_when_the_opening_is_done_and_a_later_end_is_no_failure() => Run(rig =>
    {
        PeerListener listener = rig.Listen();
        List<NetworkException> explained = [];
        RecordingClient client = Make(rig, listener.EndPoint, explained);
        Task<Session> connecting = client.ConnectAsync().AsTask();
        Peer peer = listener.Accept();
        client.Attempt().Until("connected");
        client.Until("connected");
        rig.Settle();
        Assert.False(connecting.IsCompleted);
        peer.Write("o");
        rig.Until(() => connecting.IsCompleted, "the connect");
        Assert.Same(client.Made[0], connecting.GetAwaiter().GetResult());
        peer.Write("again");
        client.Made[0].UntilReceived(6);
        peer.Close();
        client.Until("disconnected PeerClosed");
        Assert.Equal("connected, disconnected PeerClosed", client.Story);
        Assert.Empty(explained);
    });

    [Theory, Contract(1)]
    [InlineData("refused", CloseCause.Refused)]
    [InlineData("the peer finishes", CloseCause.PeerClosed)]
    [InlineData("the session closes", CloseCause.LocalClose)]
    [InlineData("the session aborts", CloseCause.LocalAbort)]
    [InlineData("the session throws", CloseCause.UserException)]
    [InlineData("disconnect", CloseCause.LocalClose)]
    public void An_earlier_end_fails_the_connect_with_that_reason_as_the_client_explains_it(string how,
        CloseCause cause) => Run(rig =>
        {
            PeerListener listener = rig.Listen();
            List<NetworkException> explained = [];
            int made = 0;
            RecordingClient client = Make(rig, how == "refused" ? rig.DeadAddress() : listener.EndPoint,
                explained, setUp: s =>
                {
                    if (made++ > 0) return;
                    s.AtConnected = x =>
                    {
                        if (how == "the session closes") x.Close();
                        else if (how == "the session aborts") x.Abort();
                        else if (how == "the session throws") throw new InvalidDataException("no");
                    };
                });
            Task<Session> connecting = client.ConnectAsync().AsTask();
            if (how != "refused")
            {
                Peer peer = listener.Accept();
                client.Attempt().Until("connected");
                if (how == "disconnect") _ = client.DisconnectAsync().AsTask();
                else if (how == "the peer finishes") peer.ShutdownSend();
                rig.Until(() => client.Attempt().Saw("disconnecting") || client.Attempt().IsOver
                    || !client.Attempt().IsConnected, "its end to begin");
                // With thread-pool scheduling a callback's request reaches the loop before the peer's FIN.
                rig.Settle();
                peer.Close();
            }

            Exception failure = Fails(rig, connecting);
            Assert.Equal("explained", failure.Message);
            NetworkException only = Assert.Single(explained);
            Assert.Same(only, failure.InnerException);
            Assert.Equal(cause, client.Made[0].End());
            Assert.Contains($"{client.Made[0].Reason}", only.Message, StringComparison.Ordinal);
            Assert.Equal(how == "refused" ? "" : $"connected, disconnected {cause}", client.Story);
            Assert.Null(client.Session);
            // And can connect again.
            connecting = client.ConnectAsync().AsTask();
            if (how == "refused")
            {
                Fails(rig, connecting);
                Assert.Equal(2, explained.Count);
                return;
            }

            Peer next = listener.Accept();
            next.Write("o");
            rig.Until(() => connecting.IsCompleted, "the connect");
            Assert.Same(client.Made[1], connecting.GetAwaiter().GetResult());
        });

    [Fact]
    public void A_cancelled_connect_ends_the_opening_and_leaves_what_has_opened_alone() => Run(rig =>
    {
        PeerListener listener = rig.Listen();
        List<NetworkException> explained = [];
        RecordingClient client = Make(rig, listener.EndPoint, explained);
        using CancellationTokenSource early = new();
        Task<Session> connecting = client.ConnectAsync(early.Token).AsTask();
        Peer peer = listener.Accept();
        client.Attempt().Until("connected");
        early.Cancel();
        Assert.IsAssignableFrom<OperationCanceledException>(Fails(rig, connecting));
        Assert.Equal(CloseCause.Cancelled, client.Made[0].End());
        peer.Close();
        Assert.Empty(explained);

        using CancellationTokenSource late = new();
        connecting = client.ConnectAsync(late.Token).AsTask();
        peer = listener.Accept();
        peer.Write("o");
        rig.Until(() => connecting.IsCompleted, "the connect");
        late.Cancel();
        rig.Settle();
        Assert.True(client.Made[1].IsConnected);
        peer.Close();
        Assert.Equal(CloseCause.PeerClosed, client.Made[1].End());
    });

    [Fact, Contract(15)]
    public void The_session_that_is_given_the_connection_in_the_opening_is_the_one_that_the_connect_gives() =>
        Run(rig =>
        {
            PeerListener listener = rig.Listen();
            RecordingClient? client = null;
            RecordingSession next = new(rig) { IsSuccessor = true, AtConnected = x => client!.CallNoteOpened(x) };
            client = Make(rig, listener.EndPoint, [], setUp: s => s.AtReceived = (x, _) => x.CallHandOver(next));
            Task<Session> connecting = client.ConnectAsync().AsTask();
            Peer peer = listener.Accept();
            peer.Write("o");
            rig.Until(() => connecting.IsCompleted, "the connect");
            Assert.Same(next, connecting.GetAwaiter().GetResult());
            Assert.Same(next, client.Session);
            peer.Close();
            next.End();
            client.Until("disconnected PeerClosed");
        });

    [Fact]
    public void A_report_for_the_session_of_another_client_or_for_an_ended_one_opens_nothing() => Run(rig =>
    {
        PeerListener listener = rig.Listen();
        List<NetworkException> explained = [];
        RecordingClient? client = null, other = null;
        client = Make(rig, listener.EndPoint, explained, setUp: s =>
        {
            s.AtReceived = (x, _) => other!.CallNoteOpened(x);
            s.AtDisconnected = (x, _) => client!.CallNoteOpened(x);
        });
        other = Make(rig, listener.EndPoint, explained);
        Assert.Throws<ArgumentNullException>(() => client.CallNoteOpened(null!));
        client.CallNoteOpened(new RecordingSession(rig));
        Task<Session> connecting = client.ConnectAsync().AsTask();
        Peer peer = listener.Accept();
        peer.Write("o");
        client.Attempt().UntilReceived(1);
        rig.Settle();
        Assert.False(connecting.IsCompleted);
        peer.Close();
        Assert.Equal("explained", Fails(rig, connecting).Message);
        client.CallNoteOpened(client.Made[0]);
        Assert.Equal("connected, disconnected PeerClosed", client.Story);
    });

    [Fact]
    public void An_explanation_that_throws_is_reported_and_the_connect_fails_as_it_would() => Run(rig =>
    {
        rig.Expect("an event of the client");
        RecordingClient client = Make(rig, rig.DeadAddress(), []);
        client.Explains = static _ => throw new InvalidDataException("thrown by the test");
        NetworkException failure = Assert.IsType<NetworkException>(Fails(rig, client.ConnectAsync().AsTask()));
        Assert.Equal(ErrorCategory.Refused, failure.Error.Category);
        Assert.Contains(rig.Notices, static n => n.Message.Contains("thrown by the test", StringComparison.Ordinal));
    });

    // ------------------------------------------------------------------ with a policy

    [Theory]
    [InlineData(true, "connected, disconnected PeerClosed, reconnecting 1, connected, disconnected PeerClosed, "
        + "reconnecting 2, connected, disconnected PeerClosed, gave up PeerClosed")]
    [InlineData(false, "connected, disconnected PeerClosed")]
    public void To_the_policy_a_failed_opening_is_a_failed_connect(bool retriesFirst, string story) => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtConnected = static x => x.Close());
        List<NetworkException> explained = [];
        RecordingClient client = Make(rig, server.EndPoint!, explained, Quick(attempts: 2, retriesFirst));
        Assert.Equal("explained", Fails(rig, client.ConnectAsync().AsTask()).Message);
        Assert.Equal(story, client.Story);
        Assert.Equal(retriesFirst,
            Assert.Single(explained).Message.Contains("Gave up after 2 more attempts.", StringComparison.Ordinal));
    });

    [Fact]
    public void A_reconnect_is_reported_when_the_opening_is_done_and_a_failed_opening_counts_as_a_failed_connect() =>
        Run(rig =>
        {
            int made = 0;
            RecordingServer server = rig.Serve(s =>
            {
                bool opens = made++ != 1;
                s.AtConnected = x =>
                {
                    if (opens) x.Send("o"u8);
                    else x.Close();
                };
                s.AtReceived = static (x, _) => x.Close();
            });
            RecordingClient client = Make(rig, server.EndPoint!, [], Quick());
            RecordingSession first = (RecordingSession)rig.Await(client.ConnectAsync());
            first.Send("x"u8);
            client.Until("reconnected 2");
            Assert.Equal("connected, disconnected PeerClosed, reconnecting 1, connected, disconnected PeerClosed, "
                + "reconnecting 2, connected, reconnected 2", client.Story);
            Assert.True(client.Made[2].IsConnected);
        });

    [Fact]
    public void A_target_that_accepts_and_does_not_open_is_tried_after_the_others_until_one_has_opened() => Run(rig =>
    {
        List<string> accepted = [];
        RecordingServer mute = rig.Serve(s => s.AtConnected = x => Accept(x, "mute")),
            open = rig.Serve(s => s.AtConnected = x => Accept(x, "open"));
        RecordingClient? client = null;
        client = rig.MakeClient(new ClientOptions
        {
            Engine = rig.Engine,
            EndPoints = [mute.EndPoint!, open.EndPoint!],
            Reconnect = Quick()
        }, s => s.AtReceived = (x, _) => client!.CallNoteOpened(x));
        client.Opens = true;
        RecordingSession first = (RecordingSession)rig.Await(client.ConnectAsync());
        lock (accepted) Assert.Equal(["mute", "open"], accepted);
        // The order starts again, because the first server may have recovered.
        first.Send("x"u8);
        client.Until("reconnected 2");
        lock (accepted) Assert.Equal(["mute", "open", "mute", "open"], accepted);

        void Accept(RecordingSession session, string which)
        {
            lock (accepted) accepted.Add(which);
            session.AtReceived = static (x, _) => x.Close();
            if (which == "open") session.Send("o"u8);
            else session.Close();
        }
    });
}
