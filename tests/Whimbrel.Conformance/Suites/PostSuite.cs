namespace Whimbrel.Conformance;

/// <summary>The loop from the user's point of view: posting, and callbacks that run on it one after the other (contract
/// 14).</summary>
public abstract class PostSuite(Transport transport) : TrafficSuite(transport)
{
    [Fact, Contract(14)]
    public void Posted_actions_run_on_the_loop_in_the_order_of_their_caller() => Run(rig =>
    {
        rig.Serve();
        Loop loop = rig.Engine.GetLoop(1);
        List<int> order = [];
        int astray = 0;
        for (int i = 0; i < 200; i++)
        {
            int number = i;
            if (i % 2 == 0) Assert.True(loop.Post(() => Add(number)));
            else Assert.True(loop.Post(static state => ((Action)state!)(), (Action)(() => Add(number))));
        }

        rig.OnLoop(loop, static () => { });
        Assert.Equal(Enumerable.Range(0, 200), order);
        Assert.Equal(0, astray);
        Assert.Throws<ArgumentNullException>(() => loop.Post((Action)null!));

        void Add(int number)
        {
            if (Loop.Current != loop || !loop.IsCurrent || rig.Engine.GetLoop(0).IsCurrent) astray++;
            order.Add(number);
        }
    });

    [Theory, Contract(14, 2)]
    [InlineData("Post")]
    [InlineData("Post with state")]
    [InlineData("Dispatch")]
    public void An_exception_of_async_code_after_an_await_is_one_diagnostic_event_and_the_loop_continues(string form) =>
        Run(rig =>
        {
            rig.Expect("threw InvalidDataException: late");
            rig.Serve();
            Loop loop = rig.Engine.GetLoop(0);
            Assert.True(form switch
            {
                "Post" => loop.Post(async () => await LateAsync()),
                "Post with state" => loop.Post(async _ => await LateAsync(), null),
                _ => loop.Dispatch(async () => await LateAsync()),
            });
            rig.Until(() => rig.Notices.Any(static n => n.Exception is InvalidDataException), "the notice");
            bool runs = false;
            rig.OnLoop(loop, () => runs = true);
            Assert.True(runs);
            Assert.Single(rig.Notices, static n => n.Kind == DiagnosticEventKind.UserException);

            async Task LateAsync()
            {
                await loop.DelayAsync(TimeSpan.FromMilliseconds(2));
                throw new InvalidDataException("late");
            }
        });

    [Fact, Contract(14, 2)]
    public void An_awaited_post_with_state_gives_what_its_async_function_throws_to_the_caller() => Run(rig =>
    {
        rig.Serve();
        Loop loop = rig.Engine.GetLoop(0);
        Task awaited = loop.PostAsync(
            async state =>
            {
                await loop.DelayAsync(TimeSpan.FromMilliseconds(2));
                throw new InvalidDataException((string)state!);
            },
            "late").AsTask();
        rig.Until(() => awaited.IsCompleted, "the end of the function");
        Assert.Equal("late", Assert.IsType<InvalidDataException>(awaited.Exception!.InnerException).Message);
    });

    [Fact, Contract(14, 2)]
    public void Post_never_runs_inside_the_caller_and_Dispatch_does_on_the_loop() => Run(rig =>
    {
        List<string> story = [];
        int told = 0;
        RecordingServer server = rig.Serve(s => s.AtReceived = (self, _) =>
        {
            self.Loop.Post(() => Tell(self.Loop.Active is null ? "posted" : "posted inside"));
            self.Loop.Dispatch(() => Tell("dispatched"));
            Tell("callback ends");
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        peer.Write("x");
        session.UntilReceived(1);
        // Received before the callback posts: a post from here may precede that one.
        rig.Until(() => Volatile.Read(ref told) == 3, "all three callbacks");
        Assert.Equal(["dispatched", "callback ends", "posted"], story);
        bool onLoop = false;
        session.Loop.Dispatch(() => onLoop = session.Loop.IsCurrent);
        rig.OnLoop(session, static () => { });
        Assert.True(onLoop);
        Assert.Null(Loop.Current);

        void Tell(string what)
        {
            story.Add(what);
            Volatile.Write(ref told, story.Count);
        }
    });

    [Fact, Contract(4, 14)]
    public void A_posted_action_that_throws_gives_a_diagnostic_event_and_the_loop_continues() => Run(rig =>
    {
        rig.Expect("a posted action threw");
        RecordingServer server = rig.Serve();
        rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        session.Loop.Post(static () => throw new InvalidOperationException("on purpose"));
        session.Loop.Post(static _ => throw new InvalidOperationException("on purpose"), null);
        rig.OnLoop(session, static () => { });
        // Two of a kind within a minute give one diagnostic event, and count as two exceptions.
        DiagnosticEvent notice = Assert.Single(rig.Notices, static n => n.Kind == DiagnosticEventKind.UserException);
        Assert.Equal("a posted action threw InvalidOperationException: on purpose. Nothing was ended; the loop "
            + "continues.", notice.Message);
        Assert.Equal(2, rig.Engine.UserExceptionCount);
        Assert.True(session.IsConnected);
    });

    [Fact, Contract(14)]
    public void After_the_engine_is_disposed_Post_returns_false_and_earlier_posts_have_run() => Run(rig =>
    {
        rig.Serve();
        Loop loop = rig.Engine.GetLoop(0);
        int taken = 0;
        int ran = 0;
        bool refused = false;
        for (int t = 0; t < 3; t++)
        {
            Repeat(rig, () =>
            {
                for (int i = 0; i < 20; i++)
                {
                    if (loop.Post(() => Interlocked.Increment(ref ran))) Interlocked.Increment(ref taken);
                    else Volatile.Write(ref refused, true);
                }

                return Volatile.Read(ref refused);
            });
        }

        rig.Until(() => Volatile.Read(ref ran) > 0, "something to run");
        rig.Await(rig.Engine.DisposeAsync());
        rig.Join();
        Assert.True(refused);
        rig.Until(() => Volatile.Read(ref ran) == taken, "everything that was taken to run");
        Assert.False(loop.Post(static () => { }));
        Assert.False(loop.Post(static _ => { }, null));
        Assert.False(loop.Dispatch(static () => { }));
    });

    [Fact, Contract(14)]
    public void A_callback_that_blocks_is_named_and_the_others_wait_and_then_continue() => Run(
        rig =>
        {
            RecordingServer server = rig.Serve(s => s.AtReceived = (self, data) =>
            {
                rig.Block(TimeSpan.FromMilliseconds(data[0] == (byte)'b' ? 700 : 1));
                self.Send(data);
            });
            Peer blockingPeer = rig.ConnectPeer(server.EndPoint!);
            RecordingSession blocking = server.Connected();
            Peer otherPeer = rig.ConnectPeer(server.EndPoint!);
            server.Connected(1);
            otherPeer.Write("1");
            Assert.Equal("1", otherPeer.ReadText(1));
            // The blocking code runs once before, because its first run is allowed more time.
            blockingPeer.Write("c");
            Assert.Equal("c", blockingPeer.ReadText(1));
            blockingPeer.Write("b");
            Assert.Equal("b", blockingPeer.ReadText(1));
            otherPeer.Write("2");
            Assert.Equal("2", otherPeer.ReadText(1));
            rig.Until(() => rig.Notices.Any(static n => n.Kind == DiagnosticEventKind.BlockedLoop), "the notice");
            DiagnosticEvent notice = rig.Notices.First(static n => n.Kind == DiagnosticEventKind.BlockedLoop
                && n.Message.StartsWith("OnReceived", StringComparison.Ordinal));
            System.Text.RegularExpressions.Match match = System.Text.RegularExpressions.Regex.Match(
                notice.Message,
                $@"^OnReceived of RecordingSession \(session {blocking.Id:x}\) blocked loop 0 for (\d+) ms(?: \(\d+ ms "
                + $@"of cpu time\))?\. Other sessions on this loop waited\. Move the work to Task\.Run, or post it in "
                + $@"smaller pieces\.$");
            Assert.True(match.Success, notice.Message);
            // The time of JIT compilation and the time before the watchdog's first check are subtracted.
            Assert.InRange(int.Parse(match.Groups[1].Value, System.Globalization.CultureInfo.InvariantCulture),
                300, 20_000);
            Assert.Equal("blocked-loop.md", notice.Page);
        },
        loops: 1);

    [Fact, Contract(14)]
    public void A_loop_that_blocks_again_is_reported_once_a_minute() => Run(
        rig =>
        {
            RecordingServer server = rig.Serve(s => s.AtReceived = (self, data) =>
            {
                rig.Block(TimeSpan.FromMilliseconds(400));
                self.Send(data[..1]);
            });
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            for (int i = 0; i < 4; i++)
            {
                peer.Write("x");
                peer.Read(1);
            }

            rig.Settle();
            Assert.Equal(1, Blocked());
            Assert.True(rig.Engine.GetLoop(0).Counters.BlockedTurns >= 4);
            if (!rig.IsVirtual) return;
            rig.Pass(TimeSpan.FromSeconds(61));
            peer.Write("x");
            peer.Read(1);
            rig.Settle();
            Assert.Equal(2, Blocked());

            int Blocked() => rig.Notices.Count(static n => n.Kind == DiagnosticEventKind.BlockedLoop);
        },
        loops: 1);
}
