using System.Net;
using System.Net.Sockets;
using Whimbrel.Connections;
using Whimbrel.Linux;

namespace Whimbrel.Conformance;

/// <summary> A pool session is in the middle of a send of its own thread (docs/design/0071), where the test stops it,
/// while other threads send on its connection or end it: nothing overtakes its data, nothing is closed during the send,
/// and no other thread waits. </summary>
public sealed class StrandSendTests
{
    private const int MessageBytes = 40_000;
    private const int TakenBytes = 10_000;
    private const int Gathered = 3;
    private const int GatheredBytes = 12_000;
    private static readonly TimeSpan s_time = TimeSpan.FromSeconds(20);

    /// <summary>Holds the next send of a thread that is not the loop, and gives it the result that the test
    /// wants.</summary>
    // Safe: arguments go through to the system call.
    private sealed unsafe class Held : SocketCalls
    {
        // Null: the kernel's result; otherwise the number of accepted bytes, or an error.
        internal Func<int>? Answer { get; set; }

        internal ManualResetEventSlim Entered { get; } = new();

        internal ManualResetEventSlim Release { get; } = new();

        internal bool WasClosedInside { get; private set; }

        internal int Sends { get; private set; }

        private volatile int _inside = -1;
        private bool _isOver;

        internal override int Send(int fd, byte* bytes, int length)
        {
            if (Loop.Current is not null || _isOver) return base.Send(fd, bytes, length);
            Sends++;
            _isOver = true;
            _inside = fd;
            Entered.Set();
            Release.Wait(s_time);
            int answer = Answer?.Invoke() ?? length;
            int result = answer <= 0 ? answer : base.Send(fd, bytes, Math.Min(answer, length));
            _inside = -1;
            return result;
        }

        internal override void Close(int fd)
        {
            if (fd == _inside) WasClosedInside = true;
            base.Close(fd);
        }
    }

    private sealed class Answering : Session
    {
        private readonly TaskCompletionSource<CloseReason> _end =
            new(TaskCreationOptions.RunContinuationsAsynchronously);

        internal Task<CloseReason> End => _end.Task;

        internal bool PeerHasFinished { get; private set; }

        internal Answering? Next { get; private set; }

        /// <summary>Number of bytes for which <see cref="Session.Send(ReadOnlySpan{byte})"/> returned true.</summary>
        internal long Accepted { get; private set; }

        internal bool SaysHello { get; init; }

        protected override void OnConnected()
        {
            if (SaysHello) Send("hello"u8);
        }

        protected override void OnReceived(ReadOnlySpan<byte> data)
        {
            if (data[0] is not ((byte)'q' or (byte)'g' or (byte)'c' or (byte)'t' or (byte)'h'))
            {
                Send(data);
                return;
            }

            // The loop that received the request is about to sleep.
            SpinWait.SpinUntil(() => Loop!.Mailbox.IsLoopAsleep, s_time);
            byte[] message = MakeMessage();
            if (data[0] == 'q') Count(Send(message), message.Length);
            if (data[0] == 'c' || data[0] == 't' || data[0] == 'h') Send(message);
            if (data[0] == 'c') Close();
            if (data[0] == 't') throw new InvalidOperationException("thrown after a send");
            if (data[0] == 'h') HandOver(Next = new Answering { SaysHello = true }, holdsSends: true);
            for (int i = 0; data[0] == 'g' && i < Gathered; i++)
            {
                Count(Send(message.AsSpan(i * GatheredBytes / Gathered, GatheredBytes / Gathered)),
                    GatheredBytes / Gathered);
            }

            // The caller may reuse it.
            Array.Clear(message);
        }

        private void Count(SendResult result, int length)
        {
            if (result == SendResult.Queued) Accepted += length;
        }

        protected override void OnEndOfStream()
        {
            PeerHasFinished = true;
            base.OnEndOfStream();
        }

        protected override void OnDisconnected(CloseReason reason) => _end.TrySetResult(reason);
    }

    private static Task LookAsync() =>
        // tidy: waits because an error would show immediately, and correct behaviour shows nothing
        Task.Delay(TimeSpan.FromMilliseconds(150), TestContext.Current.CancellationToken);

    private static byte[] MakeMessage()
    {
        byte[] message = new byte[MessageBytes];
        for (int i = 0; i < message.Length; i++) message[i] = (byte)(1 + (i % 251));
        return message;
    }

    private sealed class Rig : IAsyncDisposable
    {
        private readonly EpollOnCalls _engine;

        internal Rig(Held calls)
        {
            _engine = new EpollOnCalls(calls);
            Calls = calls;
            Server = new Server(new ServerOptions
            {
                Engine = _engine,
                Address = "tcp://127.0.0.1:0",
                Scheduling = Scheduling.ThreadPool,
                CountSends = true,
                Limits = new() { SendBytes = 64 * 1024 * 1024 }
            }, () => Session = new Answering());
        }

        internal Held Calls { get; }

        internal Server Server { get; }

        internal Answering? Session { get; private set; }

        internal Socket? Peer { get; private set; }

        /// <summary>Starts a session, and waits until it is inside its send.</summary>
        internal static async Task<Rig> StartAsync(Func<int>? answer, string command = "q")
        {
            EpollOnCalls.NeedsEpoll();
            Rig rig = new(new Held { Answer = answer });
            await rig.ConnectAsync();
            rig.Peer!.Send(System.Text.Encoding.ASCII.GetBytes(command));
            Assert.True(rig.Calls.Entered.Wait(s_time, TestContext.Current.CancellationToken),
                "It does not send itself.");
            return rig;
        }

        internal async Task ConnectAsync()
        {
            await Server.StartAsync(TestContext.Current.CancellationToken);
            Peer = ConnectPeer();
            await EpollOnCalls.UntilAsync(() => Session?.IsConnected == true);
        }

        internal Socket ConnectPeer()
        {
            Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp)
            {
                NoDelay = true,
                ReceiveTimeout = (int)s_time.TotalMilliseconds
            };
            socket.Connect((IPEndPoint)Server.EndPoint!);
            return socket;
        }

        internal byte[] Read(int count)
        {
            byte[] all = new byte[count];
            for (int done = 0; done < count;)
            {
                int got = Peer!.Receive(all.AsSpan(done));
                Assert.True(got > 0, $"the end after {done} bytes");
                done += got;
            }

            return all;
        }

        public async ValueTask DisposeAsync()
        {
            Calls.Release.Set();
            Peer?.Dispose();
            await Server.DisposeAsync();
            await _engine.DisposeAsync();
        }
    }

    [Theory]
    [InlineData("send")]
    [InlineData("much")]
    [InlineData("owned")]
    [InlineData("much owned")]
    [InlineData("awaited")]
    [InlineData("broadcast")]
    [InlineData("much broadcast")]
    [InlineData("file")]
    [InlineData("owned", true)]
    [InlineData("much owned", true)]
    [InlineData("file", true)]
    [InlineData("much", true)]
    public async Task Sends_of_other_threads_meanwhile_follow_all_of_it(string what, bool onLoop = false)
    {
        await using Rig rig = await Rig.StartAsync(static () => TakenBytes);
        Answering first = rig.Session!;
        byte[] other = new byte[what.StartsWith("much", StringComparison.Ordinal) ? 30_000 : 20];
        Array.Fill(other, (byte)'!');
        string path = Path.GetTempFileName();
        try
        {
            await File.WriteAllBytesAsync(path, other, TestContext.Current.CancellationToken);
            using FileSource file = new FileSource(path);
            SendResult result = default;
            Action send = () => result = what switch
            {
                "owned" or "much owned" => first.Send(Outgoing.Owned(new Memory(other), other.Length)),
                "broadcast" or "much broadcast" => rig.Server.Sessions.Broadcast(other),
                "file" => first.Send(Outgoing.File(file, 0, other.Length)),
                _ => first.Send(other),
            };
            if (what == "awaited")
            {
                ValueTask<SendResult> sent = first.SendAsync(other, TestContext.Current.CancellationToken);
                Assert.True(sent.IsCompleted);
                result = await sent;
            }
            else if (onLoop)
            {
                first.Loop!.Post(send);
            }
            else
            {
                send();
            }

            await LookAsync();
            Assert.Equal(0, rig.Peer!.Available);
            rig.Calls.Release.Set();
            Assert.Equal(MakeMessage(), rig.Read(MessageBytes));
            Assert.Equal(other, rig.Read(other.Length));
            Assert.Equal(SendResult.Queued, result);
            await EpollOnCalls.UntilAsync(() => first.BytesPending == 0);
            Assert.Equal(MessageBytes + other.Length, first.BytesSent);
            Assert.Equal(MessageBytes + other.Length, rig.Server.BytesSent);
            Assert.Equal(1, rig.Calls.Sends);
            // A broadcast does not count as a message of the session.
            if (!what.EndsWith("broadcast", StringComparison.Ordinal))
                Assert.Equal(2, rig.Server.ReadCounters().MessagesSent);
        }
        finally
        {
            File.Delete(path);
        }
    }

    [Fact]
    public async Task Batched_messages_continue_where_the_kernel_stopped()
    {
        await using Rig rig = await Rig.StartAsync(static () => 5_000, command: "g");
        rig.Calls.Release.Set();
        Assert.Equal(MakeMessage()[..GatheredBytes], rig.Read(GatheredBytes));
        await EpollOnCalls.UntilAsync(() => rig.Session!.BytesPending == 0);
        Assert.Equal(Gathered, rig.Server.ReadCounters().MessagesSent);
    }

    [Fact]
    public async Task An_abort_meanwhile_closes_after_it()
    {
        await using Rig rig = await Rig.StartAsync(static () => TakenBytes);
        Answering session = rig.Session!;
        session.Abort();
        await LookAsync();
        Assert.False(session.End.IsCompleted);
        rig.Calls.Release.Set();
        Assert.Equal(CloseCause.LocalAbort,
            (await session.End.WaitAsync(s_time, TestContext.Current.CancellationToken)).Cause);
        Assert.False(rig.Calls.WasClosedInside, "the descriptor was closed in the middle of a send");
    }

    [Fact]
    public async Task A_close_meanwhile_sends_all_of_it_first()
    {
        await using Rig rig = await Rig.StartAsync(static () => TakenBytes);
        Answering session = rig.Session!;
        session.Close();
        await LookAsync();
        rig.Calls.Release.Set();
        Assert.Equal(MakeMessage(), rig.Read(MessageBytes));
        Assert.Equal(0, rig.Peer!.Receive(new byte[1]));
        rig.Peer.Close();
        Assert.Equal(CloseCause.LocalClose,
            (await session.End.WaitAsync(s_time, TestContext.Current.CancellationToken)).Cause);
    }

    [Fact]
    public async Task The_loop_continues_meanwhile_for_others_and_receives_for_the_same_session()
    {
        await using Rig rig = await Rig.StartAsync(answer: null);
        Answering first = rig.Session!;
        using Socket other = rig.ConnectPeer();
        other.Send("hello"u8);
        byte[] answer = new byte[5];
        Assert.Equal(5, other.Receive(answer));
        rig.Peer!.Send("more"u8);
        await EpollOnCalls.UntilAsync(() => first.BytesReceived == 5);
        rig.Calls.Release.Set();
        Assert.Equal(MakeMessage(), rig.Read(MessageBytes));
        Assert.Equal("more"u8.ToArray(), rig.Read(4));
    }

    [Theory]
    [InlineData("q", 0)] // perhaps refused: the loop may end the connection before the bytes are queued
    [InlineData("g", GatheredBytes)]
    public async Task A_failed_send_there_ends_the_connection_and_reports_its_bytes_as_lost(string command, int least)
    {
        await using Rig rig = await Rig.StartAsync(static () => -Errno.ETIMEDOUT, command);
        Answering session = rig.Session!;
        rig.Calls.Release.Set();
        CloseReason reason = await session.End.WaitAsync(s_time, TestContext.Current.CancellationToken);
        Assert.Equal((Errno.ETIMEDOUT, session.Accepted), (reason.ErrorCode, reason.BytesLost));
        Assert.InRange(session.Accepted, least, MessageBytes);
        Assert.Equal(0, session.BytesPending);
    }

    [Fact]
    public async Task A_callback_does_not_send_itself_while_the_loop_has_data_that_the_kernel_does_not_accept()
    {
        EpollOnCalls.NeedsEpoll();
        const int MuchBytes = 16 * 1024 * 1024; // more than the buffers of both ends
        await using Rig rig = new(new Held());
        await rig.ConnectAsync();
        rig.Calls.Release.Set();
        Answering session = rig.Session!;
        byte[] much = new byte[MuchBytes];
        Assert.Equal(SendResult.Queued, session.Send(much));
        await EpollOnCalls.UntilAsync(() => session.BytesSent > 0 && session.Loop!.Mailbox.IsLoopAsleep);
        rig.Peer!.Send("q"u8);
        await EpollOnCalls.UntilAsync(() => session.Accepted == MessageBytes);
        Assert.Equal(much, rig.Read(MuchBytes));
        Assert.Equal(MakeMessage(), rig.Read(MessageBytes));
        Assert.Equal(0, rig.Calls.Sends);
    }

    [Fact]
    public async Task A_close_of_the_callback_follows_what_the_kernel_did_not_accept()
    {
        await using Rig rig = await Rig.StartAsync(static () => TakenBytes, command: "c");
        rig.Calls.Release.Set();
        Assert.Equal(MakeMessage(), rig.Read(MessageBytes));
        Assert.Equal(0, rig.Peer!.Receive(new byte[1]));
        rig.Peer.Close();
        CloseReason reason = await rig.Session!.End.WaitAsync(s_time, TestContext.Current.CancellationToken);
        Assert.Equal((CloseCause.LocalClose, 0L), (reason.Cause, reason.BytesLost));
    }

    [Fact]
    public async Task When_the_callback_then_throws_each_byte_was_sent_or_is_reported_as_lost()
    {
        await using Rig rig = await Rig.StartAsync(static () => TakenBytes, command: "t");
        rig.Calls.Release.Set();
        Answering session = rig.Session!;
        CloseReason reason = await session.End.WaitAsync(s_time, TestContext.Current.CancellationToken);
        Assert.Equal(CloseCause.UserException, reason.Cause);
        // The loop may have sent the rest before it processed the reset.
        Assert.Equal(MessageBytes, session.BytesSent + reason.BytesLost);
        Assert.Equal(0, session.BytesPending);
    }

    [Fact]
    public async Task The_next_session_of_a_hand_over_sends_after_what_the_kernel_did_not_accept()
    {
        await using Rig rig = await Rig.StartAsync(static () => TakenBytes, command: "h");
        rig.Calls.Release.Set();
        Assert.Equal(MakeMessage(), rig.Read(MessageBytes));
        Assert.Equal("hello"u8.ToArray(), rig.Read(5));
        await EpollOnCalls.UntilAsync(() => rig.Session!.Next!.BytesPending == 0);
    }

    [Fact]
    public async Task A_stop_of_the_server_meanwhile_sends_all_of_it_first()
    {
        await using Rig rig = await Rig.StartAsync(static () => TakenBytes);
        Task stop = rig.Server.StopAsync(s_time).AsTask();
        await LookAsync();
        Assert.False(stop.IsCompleted);
        rig.Calls.Release.Set();
        Assert.Equal(MakeMessage(), rig.Read(MessageBytes));
        Assert.Equal(0, rig.Peer!.Receive(new byte[1]));
        rig.Peer.Close();
        await stop.WaitAsync(s_time, TestContext.Current.CancellationToken);
        Assert.False(rig.Calls.WasClosedInside, "the descriptor was closed in the middle of a send");
    }

    // The kernel reports a reset once: a later receive looks like the end of the stream.
    [Fact]
    public async Task A_reset_reported_to_a_send_is_no_end_by_the_peer()
    {
        await using Rig rig = await Rig.StartAsync(static () => -Errno.ECONNRESET);
        Answering session = rig.Session!;
        rig.Peer!.Shutdown(SocketShutdown.Send);
        await EpollOnCalls.UntilAsync(() => session.Loop?.Mailbox.IsLoopAsleep == false);
        await LookAsync();
        rig.Calls.Release.Set();
        Assert.Equal(CloseCause.PeerReset,
            (await session.End.WaitAsync(s_time, TestContext.Current.CancellationToken)).Cause);
        Assert.False(session.PeerHasFinished, "a stream that was cut off looked whole");
    }

    [Fact]
    public async Task With_a_full_socket_the_loop_sends()
    {
        await using Rig rig = await Rig.StartAsync(static () => -Errno.EAGAIN);
        Answering session = rig.Session!;
        rig.Calls.Release.Set();
        Assert.Equal(MakeMessage(), rig.Read(MessageBytes));
        await EpollOnCalls.UntilAsync(() => session.BytesPending == 0 && session.BytesSent == MessageBytes);
        Assert.Equal(1, rig.Server.ReadCounters().MessagesSent);
    }
}
