using System.Net.Sockets;
using System.Text;
using NetCoreServer;

namespace Whimbrel.Compat.Tests.Connections;

// A Multicast to sessions that override SendAsync: each override is called, and its own messages keep their place.
public sealed class MulticastTests
{
    private const int Most = 1024 * 1024;

    private static (RecordingServer Server, List<Own> Sessions, List<Socket> Peers) Start(Log log,
        params Func<Own, ReadOnlySpan<byte>, bool>[] sends)
    {
        List<Own> sessions = [];
        RecordingServer server = new(log);
        server.Make = s =>
        {
            Own session = new(s, sends[sessions.Count]);
            sessions.Add(session);
            return session;
        };
        server.Start();
        List<Socket> peers = [];
        foreach (Func<Own, ReadOnlySpan<byte>, bool> _ in sends)
        {
            peers.Add(Cost.Connect(server.Chosen));
            log.Until("server: connected", peers.Count);
        }

        return (server, sessions, peers);
    }

    private static string Text(Socket peer, int length)
    {
        byte[] bytes = new byte[length];
        Cost.Read(peer, bytes);
        return Encoding.ASCII.GetString(bytes);
    }

    [Theory]
    [InlineData(Scheduling.ThreadPool)]
    [InlineData(Scheduling.Inline)]
    public void Sends_of_an_overridden_SendAsync_keep_their_order(Scheduling callbacks)
    {
        using Setting chosen = new(callbacks);
        List<long> pending = [];
        Log log = new();
        (RecordingServer server, List<Own> sessions, List<Socket> peers) = Start(
            log,
            static (s, b) => s.Plain("<"u8) & s.Plain(b) & s.Plain(">"u8),
            static (s, b) => s.Plain(b) & s.Plain(b),
            static (_, _) => false,
            (s, b) =>
            {
                long before = s.BytesPending;
                s.Plain(b);
                pending.Add(s.BytesPending - before);
                s.Plain("!"u8);
                pending.Add(s.BytesPending - before);
                return true;
            },
            static (s, b) => s.Send(b) == b.Length,
            static (s, b) => s.Plain(b),
            static (s, b) => s.Plain(Encoding.ASCII.GetBytes($"[{Encoding.ASCII.GetString(b)}]")),
            static (s, b) => s.Plain([b[1], b[0]]));
        using (server)
        {
            for (int i = 0; i < 100; i++)
            {
                Assert.True(server.Multicast($"{i:D2}"));
                // A message of the session itself, after the multicast.
                Assert.True(sessions[5].Plain(","u8));
            }

            string Each(Func<int, string> form) => string.Concat(Enumerable.Range(0, 100).Select(form));
            Assert.Equal(Each(static i => $"<{i:D2}>"), Text(peers[0], 400));
            Assert.Equal(Each(static i => $"{i:D2}{i:D2}"), Text(peers[1], 400));
            Assert.Equal(Each(static i => $"{i:D2}!"), Text(peers[3], 300));
            Assert.Equal(Each(static i => $"{i:D2}"), Text(peers[4], 200));
            Assert.Equal(Each(static i => $"{i:D2},"), Text(peers[5], 300));
            Assert.Equal(Each(static i => $"[{i:D2}]"), Text(peers[6], 400));
            Assert.Equal(Each(static i => $"{i % 10}{i / 10}"), Text(peers[7], 200));
            Assert.Equal(0, peers[2].Available);
            // Accepted bytes are pending immediately and sent bytes are not, so the number only decreases.
            Assert.Equal(200, pending.Count);
            Assert.Equal((2L, 3L), (pending.Where(static (_, i) => i % 2 == 0).Max(), pending.Max()));
        }

        foreach (Socket peer in peers) peer.Dispose();
    }

    [Fact]
    public void A_message_to_a_session_that_was_served_before_follows_the_multicast()
    {
        List<Own> asked = [];
        Func<Own, ReadOnlySpan<byte>, bool> send = (s, b) =>
        {
            bool isTaken = s.Plain(b);
            foreach (Own before in asked) isTaken &= before.Plain("!"u8);
            asked.Add(s);
            return isTaken;
        };
        (RecordingServer server, _, List<Socket> peers) = Start(new Log(), send, send, send);
        using (server)
        {
            Assert.True(server.Multicast("all"));
            Assert.True(asked.All(static s => s.Plain("."u8)));
            string[] got = [.. peers.Select(static p =>
            {
                StringBuilder text = new();
                while (!text.ToString().EndsWith('.')) text.Append(Text(p, 1));
                return text.ToString();
            })];
            Assert.Equal(["all!!.", "all!.", "all."], got.Order(StringComparer.Ordinal));
        }

        foreach (Socket peer in peers) peer.Dispose();
    }

    [Fact]
    public void One_that_sends_each_message_twice_sends_both_before_the_next()
    {
        (RecordingServer server, _, List<Socket> peers) = Start(new Log(), static (s, b) => s.Plain(b) & s.Plain(b));
        using (server)
        {
            for (int i = 0; i < 1000; i++) Assert.True(server.Multicast($"{i:D4}"));
            Assert.Equal(string.Concat(Enumerable.Range(0, 1000).Select(static i => $"{i:D4}{i:D4}")),
                Text(peers[0], 8000));
        }

        peers[0].Dispose();
    }

    [Fact]
    public void A_session_that_disconnects_after_its_message_has_sent_it()
    {
        Log log = new();
        (RecordingServer server, _, List<Socket> peers) = Start(
            log,
            static (s, b) => s.Plain(b),
            static (s, b) => s.Plain(b) && s.Disconnect());
        using (server)
        {
            Assert.True(server.Multicast("once"));
            Assert.True(server.Multicast("more"));
            Assert.Equal("once", Text(peers[1], 4));
            Assert.Equal(0, peers[1].Receive(new byte[1]));
            Assert.Equal("oncemore", Text(peers[0], 8));
        }

        foreach (Socket peer in peers) peer.Dispose();
    }

    // The second message is collected: it leaves when the loop has drained what it was sent before.
    [Theory]
    [InlineData(Scheduling.ThreadPool)]
    [InlineData(Scheduling.Inline)]
    public void Messages_that_were_multicast_before_the_user_closes_the_Socket_arrive(Scheduling callbacks)
    {
        using Setting chosen = new(callbacks);
        Log log = new();
        (RecordingServer server, List<Own> sessions, List<Socket> peers) = Start(log, static (s, b) => s.Plain(b),
            static (s, b) => s.Plain(b));
        using (server)
        {
            sessions[1].AtReceived = (x, _) =>
            {
                server.Multicast("one");
                server.Multicast("two");
                x.Socket.Close();
            };
            peers[1].Send("x"u8);
            Assert.Equal("onetwo", Text(peers[1], 6));
            Assert.Equal(0, peers[1].Receive(new byte[1]));
            Assert.Equal("onetwo", Text(peers[0], 6));
        }

        foreach (Socket peer in peers) peer.Dispose();
    }

    [Fact]
    public void An_exception_of_a_session_goes_to_the_caller_and_earlier_sessions_have_their_message()
    {
        Log log = new();
        bool throws = true;
        int asked = 0;
        Func<Own, ReadOnlySpan<byte>, bool> send = (s, b) =>
        {
            if (throws && asked == 2) throw new InvalidOperationException("on purpose");
            asked++;
            return s.Plain(b);
        };
        (RecordingServer server, _, List<Socket> peers) = Start(log, send, send, send, send);
        using (server)
        {
            Assert.Equal("on purpose",
                Assert.Throws<InvalidOperationException>(() => { server.Multicast("first "); }).Message);
            throws = false;
            Assert.True(server.Multicast("end."));
            int[] lengths = [.. peers.Select(p =>
            {
                StringBuilder got = new();
                while (!got.ToString().EndsWith("end.", StringComparison.Ordinal)) got.Append(Text(p, 1));
                return got.Length;
            })];
            Assert.Equal([4, 4, 10, 10], lengths.Order());
        }

        foreach (Socket peer in peers) peer.Dispose();
    }

    [Fact]
    public void A_multicast_inside_another_reaches_all()
    {
        Log log = new();
        RecordingServer? itself = null;
        int inner = 0;
        Func<Own, ReadOnlySpan<byte>, bool> send = static (s, b) => s.Plain(b);
        (RecordingServer server, _, List<Socket> peers) = Start(
            log,
            send,
            (s, b) => s.Plain(b) && (++inner > 1 || itself!.Multicast("(inner)")),
            send);
        itself = server;
        using (server)
        {
            Assert.True(server.Multicast("outer"));
            Assert.True(server.Multicast("end"));
            foreach (Socket peer in peers)
            {
                string got = Text(peer, 15);
                Assert.Contains(got, (string[])["outer(inner)end", "(inner)outerend"]);
            }
        }

        foreach (Socket peer in peers) peer.Dispose();
    }

    [Fact]
    public void Several_threads_multicast_and_each_of_their_messages_arrives_in_its_order()
    {
        Log log = new();
        Func<Own, ReadOnlySpan<byte>, bool> send = static (s, b) => s.Plain(b);
        (RecordingServer server, _, List<Socket> peers) = Start(log, send, send, send);
        using (server)
        {
            Thread[] threads = [.. Enumerable.Range(0, 3).Select(t => new Thread(() =>
            {
                for (int i = 0; i < 500; i++) server.Multicast($"<{t}:{i:D3}>");
            }))];
            foreach (Thread thread in threads) thread.Start();
            foreach (Socket peer in peers)
            {
                string[] got = Text(peer, 3 * 500 * 7)[1..^1].Split("><");
                for (int t = 0; t < 3; t++)
                    Assert.Equal(Enumerable.Range(0, 500).Select(i => $"{t}:{i:D3}"), got.Where(m => m[0] == '0' + t));
            }

            foreach (Thread thread in threads) thread.Join();
        }

        foreach (Socket peer in peers) peer.Dispose();
    }

    // As in the old performance programs.
    [Fact]
    public void A_slow_client_misses_messages_and_stays_and_the_others_get_all()
    {
        const int Size = 1000;
        const int Messages = 8000;
        int refused = 0;
        Func<Own, ReadOnlySpan<byte>, bool> send = static (s, b) => s.Plain(b);
        Log log = new();
        (RecordingServer server, List<Own> sessions, List<Socket> peers) = Start(
            log,
            send,
            (s, b) =>
            {
                if (s.BytesPending + s.BytesSending + b.Length <= Most) return s.Plain(b);
                refused++;
                return false;
            });
        using (server)
        {
            byte[] message = new byte[Size];
            byte[] got = new byte[Size];
            for (int i = 0; i < Messages; i++)
            {
                BitConverter.TryWriteBytes(message, i);
                Assert.True(server.Multicast(message));
                Cost.Read(peers[0], got);
                Assert.Equal(i, BitConverter.ToInt32(got));
                Assert.InRange(sessions[1].BytesPending, 0, Most);
            }

            Assert.InRange(refused, 1, Messages - (Most / Size));
            Assert.True(sessions[1].IsConnected);
            // It received whole messages, the earliest ones; after that it accepts messages again.
            for (int i = 0; i < Messages - refused; i++)
            {
                Cost.Read(peers[1], got);
                Assert.Equal(i, BitConverter.ToInt32(got));
            }

            Log.Until(() => sessions[1].BytesPending == 0, "nothing to wait");
            Assert.True(server.Multicast("caught up"));
            Assert.Equal("caught up", Text(peers[1], 9));
        }

        foreach (Socket peer in peers) peer.Dispose();
    }

    [Fact]
    public void A_limit_of_a_session_is_exact_and_its_error_is_reported()
    {
        Log log = new();
        int no = 0;
        (RecordingServer server, List<Own> sessions, List<Socket> peers) = Start(
            log,
            static (s, b) => s.Plain(b),
            (s, b) =>
            {
                bool isTaken = s.Plain(b);
                if (!isTaken) no++;
                return isTaken;
            });
        using (server)
        {
            sessions[1].OptionSendBufferLimit = 100_000;
            byte[] message = new byte[10_000];
            byte[] got = new byte[10_000];
            for (int i = 0; i < 2000; i++)
            {
                Assert.True(server.Multicast(message));
                Cost.Read(peers[0], got);
                Assert.InRange(sessions[1].BytesPending, 0, 100_000);
            }

            Assert.InRange(no, 1, 1990);
            Assert.Equal(no, log.Count("session: error NoBufferSpaceAvailable"));
            Assert.True(sessions[1].IsConnected);
        }

        foreach (Socket peer in peers) peer.Dispose();
    }

    // "1" is sent at once, "3" and "4" are collected until the loop has processed it.
    [Theory]
    [InlineData(Scheduling.ThreadPool, 1)]
    [InlineData(Scheduling.Inline, 1)]
    [InlineData(Scheduling.ThreadPool, 100_000)]
    [InlineData(Scheduling.Inline, 100_000)]
    public async Task A_collected_message_does_not_pass_what_was_sent_before_it(Scheduling callbacks, int length)
    {
        await using Engine engine = new(new EngineOptions { Loops = 1, BlockedLoopMs = 60_000 });
        await engine.StartAsync();
        using Setting chosen = new(callbacks);
        CompatOptions.Engine = engine;
        try
        {
            (RecordingServer server, List<Own> sessions, List<Socket> peers) = Start(new Log(),
                static (s, b) => s.Plain(b), static (s, b) => s.Plain(b));
            try
            {
                using Standing standing = new(engine.GetLoop(0));
                string second = new('2', length);
                Assert.True(server.Multicast("1"));
                Assert.True(sessions[0].Plain(Encoding.ASCII.GetBytes(second)));
                Assert.True(server.Multicast("3"));
                Assert.True(server.Multicast(second)); // too long to be collected
                Assert.True(server.Multicast("4"));
                standing.Dispose();
                Assert.Equal($"1{second}3{second}4", Text(peers[0], 3 + 2 * length));
                Assert.Equal($"13{second}4", Text(peers[1], 3 + length));
            }
            finally
            {
                server.Dispose();
            }

            foreach (Socket peer in peers) peer.Dispose();
        }
        finally
        {
            CompatOptions.Engine = null;
        }
    }

    // SendAsync has returned true by then.
    [Fact]
    public async Task A_multicast_waits_for_a_full_loop_and_reaches_all()
    {
        await using Engine engine =
            new(new EngineOptions { Loops = 1, MailboxLimitBytes = 64 * 1024, BlockedLoopMs = 60_000 });
        await engine.StartAsync();
        CompatOptions.Engine = engine;
        try
        {
            Log log = new();
            int taken = 0;
            Func<Own, ReadOnlySpan<byte>, bool> send = (s, b) =>
            {
                bool isTaken = s.Plain(b);
                if (isTaken) taken++;
                return isTaken;
            };
            (RecordingServer server, _, List<Socket> peers) = Start(log, send, send);
            try
            {
                using Standing standing = new(engine.GetLoop(0));
                byte[] message = new byte[1000];
                Thread sender = new(() =>
                {
                    for (int i = 0; i < 100; i++) Assert.True(server.Multicast(message));
                });
                sender.Start();
                // The mailbox holds 64 KiB: about 32 messages for both.
                Log.Until(() => Volatile.Read(ref taken) >= 60, "a full mailbox");
                Assert.NotEqual(200, Volatile.Read(ref taken));
                standing.Dispose();
                foreach (Socket peer in peers) Cost.Read(peer, new byte[100 * 1000]);
                Assert.True(sender.Join(Log.Patience));
                Assert.Equal((200, 0), (taken, log.Count("session: error NoBufferSpaceAvailable")));
                Assert.True(server.Multicast("last"));
                foreach (Socket peer in peers) Assert.Equal("last", Text(peer, 4));
            }
            finally
            {
                server.Dispose();
            }

            foreach (Socket peer in peers) peer.Dispose();
        }
        finally
        {
            CompatOptions.Engine = null;
        }
    }

    private sealed class Own(RecordingServer server, Func<Own, ReadOnlySpan<byte>, bool> send)
        : RecordingSession(server)
    {
        public bool Plain(ReadOnlySpan<byte> bytes) => base.SendAsync(bytes);

        public override bool SendAsync(ReadOnlySpan<byte> buffer) => send(this, buffer);
    }
}
