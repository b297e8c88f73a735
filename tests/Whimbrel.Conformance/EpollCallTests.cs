using System.Net;
using System.Net.Sockets;
using System.Runtime.InteropServices;
using Whimbrel.Connections;
using Whimbrel.Engines.Epoll;
using Whimbrel.Linux;

namespace Whimbrel.Conformance;

/// <summary>Cost of a short connection on epoll, in system calls; and the handling of descriptors of which another
/// process holds a duplicate.</summary>
public sealed partial class EpollCallTests
{
    private const int AnswerBytes = 1024;
    private const int Connections = 20;

    /// <summary>Names of system calls, passed from the loop's thread to the test's.</summary>
    private sealed class Calls
    {
        private readonly List<string> _names = [];

        /// <summary>Names in order, without waits.</summary>
        internal string[] Take()
        {
            lock (_names)
            {
                string[] taken = [.. _names];
                _names.Clear();
                return taken;
            }
        }

        internal int Closes { get; private set; }

        internal void Report(string name)
        {
            lock (_names)
            {
                _names.Add(name);
                if (name == "close") Closes++;
            }
        }
    }

    // Safe: arguments go through to the system call.
    private sealed unsafe class CountingSet(Calls calls) : EpollCalls
    {
        internal int Sets { get; private set; }

        internal override int Create()
        {
            Sets++;
            return base.Create();
        }

        internal override int Control(int epoll, int operation, int fd, byte* epollEvent)
        {
            calls.Report(operation switch
            {
                EpollAbi.EPOLL_CTL_ADD => "add",
                EpollAbi.EPOLL_CTL_DEL => "remove",
                _ => "change"
            });
            return base.Control(epoll, operation, fd, epollEvent);
        }
    }

    /// <summary>Can keep a duplicate of each accepted descriptor.</summary>
    // Safe: arguments go through to the system call.
    private sealed unsafe class CountingSockets(Calls calls) : SocketCalls
    {
        internal bool KeepsDuplicates { get; set; }

        internal List<int> Duplicates { get; } = [];

        internal override int Accept(int listener, byte* address, uint* length, int flags)
        {
            int fd = base.Accept(listener, address, length, flags);
            calls.Report("accept");
            if (fd >= 0 && KeepsDuplicates) Duplicates.Add(Duplicate(fd));
            return fd;
        }

        internal override int Receive(int fd, byte* buffer, int length)
        {
            calls.Report("receive");
            return base.Receive(fd, buffer, length);
        }

        internal override int Send(int fd, byte* bytes, int length)
        {
            calls.Report("send");
            return base.Send(fd, bytes, length);
        }

        internal override void ShutdownSend(int fd)
        {
            calls.Report("shutdown");
            base.ShutdownSend(fd);
        }

        internal override void Close(int fd)
        {
            calls.Report("close");
            base.Close(fd);
        }
    }

    private sealed class AnsweringSession(bool peerFinished) : Session
    {
        protected override void OnReceived(ReadOnlySpan<byte> data)
        {
            Send(new byte[AnswerBytes]);
            if (peerFinished) CloseWithoutLingering();
            else Close();
        }
    }

    private sealed class Rig : IAsyncDisposable
    {
        private readonly bool _peerFinished;
        private readonly Action<NewSocket>? _hook;
        private readonly EpollOnCalls _engine;
        private Server? _server;

        internal Rig(bool peerFinished, Action<NewSocket>? hook = null)
        {
            (_peerFinished, _hook) = (peerFinished, hook);
            Set = new CountingSet(Calls);
            Sockets = new CountingSockets(Calls);
            _engine = new EpollOnCalls(Sockets, Set);
        }

        internal Calls Calls { get; } = new();

        internal CountingSet Set { get; }

        internal CountingSockets Sockets { get; }

        internal Server Server => _server!;

        internal async Task StartAsync()
        {
            _server = new Server(
                new ServerOptions
                {
                    Engine = _engine,
                    Address = "tcp://127.0.0.1:0",
                    Socket = new() { OnCreated = _hook }
                },
                () => new AnsweringSession(_peerFinished));
            await _server.StartAsync(TestContext.Current.CancellationToken);
            Calls.Take();
        }

        /// <summary>Serves one short connection, and waits until the server has closed it.</summary>
        internal async Task ServeOneAsync()
        {
            CancellationToken cancellation = TestContext.Current.CancellationToken;
            int closes = Calls.Closes;
            using Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
            await socket.ConnectAsync((IPEndPoint)_server!.EndPoint!, cancellation);
            await socket.SendAsync(new byte[32], cancellation);
            int got = 0;
            byte[] buffer = new byte[2 * AnswerBytes];
            for (int count; (count = await socket.ReceiveAsync(buffer, cancellation)) > 0;) got += count;
            Assert.Equal(AnswerBytes, got);
            socket.Close();
            // The session is removed from the server before its socket is closed: without the second condition this
            // close could be counted with the next connection.
            await EpollOnCalls.UntilAsync(() => _server.SessionCount == 0 && Calls.Closes > closes);
        }

        public async ValueTask DisposeAsync()
        {
            if (_server is not null) await _server.DisposeAsync();
            await _engine.DisposeAsync();
        }
    }

    // Safe: a descriptor in, a descriptor out.
    [LibraryImport("libc", EntryPoint = "dup")]
    private static partial int Duplicate(int fd);

    [Theory]
    [InlineData(true, "accept add receive send close")]
    [InlineData(false, "accept add receive send shutdown receive close")]
    public async Task A_short_connection_makes_no_unnecessary_system_call(bool peerFinished, string expected)
    {
        EpollOnCalls.NeedsEpoll();
        await using Rig rig = new(peerFinished);
        await rig.StartAsync();
        for (int i = 0; i < Connections; i++)
        {
            await rig.ServeOneAsync();
            Assert.Equal(expected, string.Join(' ', rig.Calls.Take()));
        }
    }

    [Fact]
    public async Task Where_user_code_saw_the_descriptor_it_is_taken_out_of_the_set_before_it_is_closed()
    {
        EpollOnCalls.NeedsEpoll();
        await using Rig rig = new(peerFinished: true, static _ => { });
        await rig.StartAsync();
        await rig.ServeOneAsync();
        Assert.Equal(["remove", "close"], rig.Calls.Take()[^2..]);
    }

    [Fact]
    public async Task An_unknown_duplicate_descriptor_does_not_keep_the_loop_busy()
    {
        EpollOnCalls.NeedsEpoll();
        await using Rig rig = new(peerFinished: false);
        rig.Sockets.KeepsDuplicates = true;
        await rig.StartAsync();
        int before = rig.Set.Sets;
        await rig.ServeOneAsync();
        await EpollOnCalls.UntilAsync(() => rig.Set.Sets > before);
        rig.Sockets.KeepsDuplicates = false;
        foreach (int fd in rig.Sockets.Duplicates) Syscall.Close(fd);
        // Everything in the old set is in the new one: the listener, and the wake descriptor.
        for (int i = 0; i < 3; i++) await rig.ServeOneAsync();
        Assert.Equal(before + 1, rig.Set.Sets);
    }
}
