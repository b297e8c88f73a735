namespace Whimbrel.Conformance;

/// <summary>A connector: many connections from one set of options, each with its own connect.</summary>
public abstract class ConnectorSuite(Transport transport) : Suite(transport)
{
    private static Connector Make(Rig rig, System.Net.EndPoint endPoint) =>
        new(rig.Scheduled(new ClientOptions { Engine = rig.Engine, EndPoint = endPoint }));

    [Fact]
    public void Many_connections_live_side_by_side_and_all_end_with_the_connector() => Run(rig =>
    {
        const int many = 20;
        RecordingServer server = rig.Serve(static s => s.AtReceived = static (x, data) => x.Send(data));
        Connector connector = Make(rig, server.EndPoint!);
        Assert.Equal(0, connector.SessionCount);
        RecordingSession[] sessions = [.. Enumerable.Range(0, many).Select(_ => new RecordingSession(rig))];
        ValueTask<Session>[] attempts = [.. sessions.Select(
            (s, i) => connector.ConnectAsync(() => s, i % 2 == 0 ? null : rig.Engine.GetLoop(1)))];
        for (int i = 0; i < many; i++)
        {
            Assert.Same(sessions[i], rig.Await(attempts[i]));
            if (i % 2 == 1) Assert.Equal(1, sessions[i].Loop.Index);
            Assert.Null(sessions[i].Client);
        }

        Assert.Equal(many, connector.SessionCount);
        Assert.Equal(SendResult.Queued, connector.Sessions.Broadcast("hello"u8));
        foreach (RecordingSession session in sessions) session.UntilReceived(5);
        sessions[0].Close();
        Assert.Equal(CloseCause.LocalClose, sessions[0].End());
        rig.Until(() => connector.SessionCount == many - 1, "one to be forgotten");
        rig.Await(connector.DisposeAsync());
        Assert.Equal(0, connector.SessionCount);
        Assert.All(sessions, static s => Assert.True(s.IsOver, s.Life));
        Assert.Throws<ObjectDisposedException>(
            () => rig.Await(connector.ConnectAsync(() => new RecordingSession(rig))));
        rig.Await(connector.DisposeAsync());
    });

    [Fact]
    public void Each_connect_fails_by_itself_and_the_next_one_may_succeed() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Connector wrong = Make(rig, rig.DeadAddress());
        for (int i = 0; i < 3; i++)
        {
            RecordingSession session = new(rig);
            NetworkException e = Assert.Throws<NetworkException>(() => rig.Await(wrong.ConnectAsync(() => session)));
            Assert.Equal(ErrorCategory.Refused, e.Error.Category);
            Assert.Contains("Cannot connect to", e.Message, StringComparison.Ordinal);
            Assert.Equal("connecting, connect failed Refused", session.Life);
        }

        Connector connector = Make(rig, server.EndPoint!);
        Assert.Throws<FormatException>(
            () => rig.Await(connector.ConnectAsync(static () => throw new FormatException("odd"))));
        Assert.Throws<InvalidOperationException>(() => rig.Await(connector.ConnectAsync(static () => null!)));
        RecordingSession good = new(rig);
        Assert.Same(good, rig.Await(connector.ConnectAsync(() => good)));
        Assert.Throws<InvalidOperationException>(() => rig.Await(connector.ConnectAsync(() => good)));
        Assert.Equal((0, 1), (wrong.SessionCount, connector.SessionCount));
        rig.Await(wrong.DisposeAsync());
        rig.Await(connector.DisposeAsync());
    });

    [Fact]
    public void A_connect_can_be_cancelled_and_the_end_of_the_connector_cancels_the_others() => Run(rig =>
    {
        Assert.SkipWhen(rig.SilentAddress() is null, "The memory engine answers every connect at once.");
        Connector connector = Make(rig, rig.SilentAddress()!);
        RecordingSession first = new(rig);
        RecordingSession second = new(rig);
        using CancellationTokenSource cancellation = new();
        ValueTask<Session> cancelled = connector.ConnectAsync(() => first, null, cancellation.Token);
        ValueTask<Session> waiting = connector.ConnectAsync(() => second);
        first.Until("connecting");
        second.Until("connecting");
        cancellation.Cancel();
        Assert.Throws<OperationCanceledException>(() => rig.Await(cancelled));
        Assert.Equal(1, connector.SessionCount);
        rig.Await(connector.DisposeAsync());
        Assert.Throws<NetworkException>(() => rig.Await(waiting));
        Assert.Equal("connecting, connect failed Cancelled", first.Life);
        Assert.Equal("connecting, connect failed LocalClose", second.Life);
    });

    [Fact]
    public void Options_that_a_connector_cannot_have_are_refused() => Run(rig =>
    {
        Connector policy = new(
            new ClientOptions { Engine = rig.Engine, EndPoint = rig.DeadAddress(), Reconnect = new ReconnectPolicy() });
        Assert.Contains("Reconnect", Assert.Throws<ArgumentException>(
            () => rig.Await(policy.ConnectAsync(() => new RecordingSession(rig)))).Message, StringComparison.Ordinal);
        Connector nowhere = new(new ClientOptions { Engine = rig.Engine });
        Assert.Throws<ArgumentException>(() => rig.Await(nowhere.ConnectAsync(() => new RecordingSession(rig))));
        rig.Await(policy.DisposeAsync());
        rig.Await(nowhere.DisposeAsync());
    });
}
