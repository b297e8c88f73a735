using System.Net.Sockets;

namespace Whimbrel.Conformance;

/// <summary> What the peer of a Unix socket sees on Linux when the connection ends abruptly. Contract 12 and
/// docs/limits.md guarantee no more than this: if one of these fails on a new kernel, they can guarantee more.
/// </summary>
public sealed class UnixEndTests
{
    private static readonly LingerOption s_atOnce = new(enable: true, seconds: 0);

    [Theory]
    [InlineData(0, false)]
    [InlineData(10, false)]
    [InlineData(0, true)]
    [InlineData(10, true)]
    public async Task The_peer_reads_what_was_sent_and_an_ordinary_end_unless_the_side_that_ends_had_unread_bytes(
        int sent, bool leavesUnread)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The test states what Linux does.");
        (Socket ends, Socket peer) = await ConnectAsync();
        using Socket both = peer;
        if (leavesUnread) Assert.Equal(1, peer.Send("x"u8));
        byte[] data = new byte[sent];
        if (sent > 0) Assert.Equal(sent, ends.Send(data));
        ends.LingerState = s_atOnce;
        ends.Dispose();
        for (int got = 0; got < sent;) got += peer.Receive(data);
        if (leavesUnread)
            Assert.Equal(SocketError.ConnectionReset,
                Assert.Throws<SocketException>(() => peer.Receive(new byte[1])).SocketErrorCode);
        Assert.Equal(0, peer.Receive(new byte[1]));
    }

    [Fact, Contract(12)]
    public async Task A_session_that_aborts_on_a_Unix_socket_looks_to_its_peer_as_if_it_had_closed()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The test states what Linux does.");
        string path = Path.Combine(Path.GetTempPath(), $"whimbrel-{Guid.NewGuid():n}.sock");
        TaskCompletionSource<CloseReason> ended = new(TaskCreationOptions.RunContinuationsAsynchronously);
        await using Engine engine = new(new EngineOptions { Loops = 1 });
        await using Server server =
            new(new ServerOptions { Engine = engine, EndPoint = new UnixDomainSocketEndPoint(path) },
                () => new HalfAnswer(ended));
        await server.StartAsync(TestContext.Current.CancellationToken);
        using Socket peer = new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        await peer.ConnectAsync(server.EndPoint!, TestContext.Current.CancellationToken);
        Assert.Equal(1, peer.Send("?"u8));
        byte[] buffer = new byte[64];
        int got = 0;
        for (int count;
            (count = await peer.ReceiveAsync(buffer.AsMemory(got), TestContext.Current.CancellationToken)) > 0;)
            got += count;
        // Only the length prefix 10 shows that the response is incomplete.
        Assert.Equal("10 half", System.Text.Encoding.ASCII.GetString(buffer, 0, got));
        CloseReason reason = await ended.Task.WaitAsync(TimeSpan.FromSeconds(30),
            TestContext.Current.CancellationToken);
        Assert.Equal((CloseCause.LocalAbort, true, false), (reason.Cause, reason.WasReset, reason.IsGraceful));
    }

    private static async Task<(Socket First, Socket Second)> ConnectAsync()
    {
        using Socket listener = new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        listener.Bind(new UnixDomainSocketEndPoint($"\0whimbrel-{Guid.NewGuid():n}"));
        listener.Listen(1);
        Socket first = new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        await first.ConnectAsync(listener.LocalEndPoint!, TestContext.Current.CancellationToken);
        return (first, await listener.AcceptAsync(TestContext.Current.CancellationToken));
    }

    private sealed class HalfAnswer(TaskCompletionSource<CloseReason> ended) : Session
    {
        protected override void OnReceived(ReadOnlySpan<byte> data)
        {
            Send("10 half"u8);
            Flush();
            Abort();
        }

        protected override void OnDisconnected(CloseReason reason) => ended.SetResult(reason);
    }
}
