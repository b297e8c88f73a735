using Whimbrel.Buffers;

namespace Whimbrel.Conformance;

/// <summary>Contract 20: a part of a file is a message like any other, and is not held in memory.</summary>
public abstract class FileSuite(Transport transport) : TrafficSuite(transport)
{
    // More than all buffers in between hold.
    private static int LargeOf(Rig rig) => (rig.IsVirtual ? 1 : 24) * 1024 * 1024;

    [Theory, Contract(20)]
    [InlineData(0)]
    [InlineData(1)]
    [InlineData(FileRange.ChargeBytes)]
    [InlineData(FileRange.ChargeBytes + 1)]
    [InlineData((64 * 1024) - 1)]
    [InlineData(64 * 1024)]
    [InlineData((64 * 1024) + 1)]
    [InlineData(1_000_000)]
    public void A_file_of_any_size_arrives_in_its_place(int size) => Run(rig =>
    {
        byte[] data = Pattern(size);
        using TestFile file = new(data);
        FileSource source = new(file.Path);
        Assert.Equal(size, source.Length);
        RecordingServer server = rig.Serve(s => s.AtConnected = x =>
        {
            x.Send("before "u8);
            Assert.Equal(SendResult.Queued, x.Send(Outgoing.File(source, 0, size).WithHead("head "u8)));
            Assert.Equal(SendResult.Queued, x.Send(Outgoing.File(source, 0, size)));
            x.Send(" behind"u8);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        Assert.Equal([.. "before head "u8, .. data, .. data, .. " behind"u8], peer.Read((2 * size) + 19));
        RecordingSession session = server.Connected();
        rig.Until(() => session.BytesPending == 0 && session.BytesSent == (2 * size) + 19, "all to be counted");
        // From another thread, too; data after a complete file is sent without waiting for more.
        Assert.Equal(SendResult.Queued, session.Send(Outgoing.File(source, 0, size).WithHead("head "u8)));
        Assert.Equal(SendResult.Queued, session.Send("last"u8));
        Assert.Equal([.. "head "u8, .. data, .. "last"u8], peer.Read(size + 9));
        UntilClosed(rig, source);
    });

    [Fact, Contract(20)]
    public void A_part_of_a_file_is_sent_from_its_offset() => Run(rig =>
    {
        byte[] data = Pattern(300_000);
        using TestFile file = new(data);
        FileSource source = new(file.Path);
        RecordingServer server = rig.Serve(s => s.AtConnected = x =>
        {
            x.Send(Outgoing.File(source, 299_990, 10));
            x.Send(Outgoing.File(source, 1, 200_000));
            x.Send(Outgoing.File(source, 300_000, 0));
        });
        Assert.Equal([.. data[299_990..], .. data[1..200_001]], rig.ConnectPeer(server.EndPoint!).Read(200_010));
        UntilClosed(rig, source);
    });

    [Fact]
    public void A_range_outside_the_file_is_refused_at_the_call() => Run(rig =>
    {
        using TestFile file = new(Pattern(100));
        FileSource source = new(file.Path);
        (RecordingSession session, Peer peer) = Pair(rig);
        rig.OnLoop(session, () =>
        {
            Assert.Throws<ArgumentOutOfRangeException>(() => session.Send(Outgoing.File(source, -1, 1)));
            Assert.Throws<ArgumentOutOfRangeException>(() => session.Send(Outgoing.File(source, 0, -1)));
            Assert.Throws<ArgumentOutOfRangeException>(() => session.Send(Outgoing.File(source, 1, 100)));
            Assert.Throws<ArgumentOutOfRangeException>(() => session.Send(Outgoing.File(source, long.MaxValue, 1)));
            Assert.Throws<ArgumentOutOfRangeException>(() => session.Send(Outgoing.File(source, 1, long.MaxValue)));
        });
        // It has grown since it was opened.
        File.AppendAllText(file.Path, "more");
        Assert.Equal(SendResult.Queued, session.Send(Outgoing.File(source, 100, 4)));
        Assert.Equal("more", peer.ReadText(4));
        UntilClosed(rig, source);
        Assert.Throws<ObjectDisposedException>(() => session.Send(Outgoing.File(source, 0, 1)));
        Assert.Throws<ObjectDisposedException>(source.Dispose);
        Assert.Throws<ObjectDisposedException>(source.AddReference);
    });

    [Fact, Contract(20)]
    public void A_file_counts_little_against_the_limit_and_with_all_its_bytes_as_pending() => Run(rig =>
    {
        int large = LargeOf(rig);
        using TestFile file = new(large, []);
        FileSource source = new(file.Path);
        (RecordingSession session, Peer peer) = Pair(rig, SlowConsumer.DropNewest, limit: 4096);
        rig.OnLoop(session, () =>
        {
            for (int i = 0; i < 3; i++) Assert.Equal(SendResult.Queued, session.Send(Outgoing.File(source, 0, large)));
        });
        rig.OnLoop(session, static () => { });
        rig.Settle();
        Assert.InRange(session.BytesPending, 2 * (long)large, 3 * (long)large);
        rig.OnLoop(session, () =>
        {
            // 1 KiB of the limit is left, for any kind of message.
            Assert.Equal(SendResult.Full, session.Send(new byte[1025].AsSpan()));
            Assert.Equal(SendResult.Full, session.Send(Outgoing.File(source, 0, large).WithHead("x"u8)));
            Assert.Equal(SendResult.Queued, session.Send(new byte[1000].AsSpan()));
            Assert.Equal(SendResult.Full, session.Send(Outgoing.File(source, 0, large)));
            Assert.Equal(SendResult.Queued, session.Send(Outgoing.File(source, 0, 24)));
            Assert.Equal(SendResult.Full, session.Send("x"u8));
        });
        peer.Reset();
        session.End();
        UntilClosed(rig, source);
    });

    [Fact, Contract(20)]
    public void A_session_that_answers_with_files_is_not_read_until_they_are_sent() => Run(rig =>
    {
        int large = LargeOf(rig);
        using TestFile file = new(large, []);
        FileSource source = new(file.Path);
        int answers = 0;
        (RecordingSession session, Peer peer) = Wide(rig, s => s.AtData = (x, _) =>
        {
            answers++;
            x.Send(Outgoing.File(source, 0, large));
            return 1;
        });
        peer.Write("1");
        rig.Until(() => answers == 1, "the first answer");
        rig.Settle();
        peer.Write("2");
        rig.Settle();
        Assert.Equal((1, true), (answers, session.IsAboveHighWaterMark));
        ReadZeros(rig, peer, large);
        rig.Until(() => answers == 2, "the second answer");
        ReadZeros(rig, peer, large);
        UntilClosed(rig, source);
    });

    [Fact, Contract(20)]
    public void A_large_file_for_a_slow_reader_is_not_in_memory() => Run(rig =>
    {
        // Shorter where each byte costs encryption or simulation; everywhere it is many times the size of the memory
        // used.
        long length = rig is RealRig && rig.Tls == TlsKind.None ? 300L * 1024 * 1024 : 2 * LargeOf(rig);
        byte[] end = Pattern(1000);
        using TestFile file = new(length, end);
        FileSource source = new(file.Path);
        (RecordingSession session, Peer peer) = Wide(rig);
        Assert.Equal(SendResult.Queued, session.Send(Outgoing.File(source, 0, length)));
        source.Dispose();
        rig.Settle();
        Assert.InRange(session.BytesPending, length / 2, length);
        byte[] buffer = new byte[1024 * 1024];
        long left = length;
        byte[] tail = [];
        int most = 0;
        while (left > 0)
        {
            int got = 0;
            rig.Until(() => (got = peer.TryRead(buffer.AsSpan(0, (int)Math.Min(left, buffer.Length)))) > 0,
                $"the {left} bytes that are left");
            left -= got;
            tail = [.. tail, .. buffer.AsSpan(Math.Max(0, got - 1000), Math.Min(got, 1000))];
            tail = tail[Math.Max(0, tail.Length - 1000)..];
            most = Math.Max(most, session.Loop.Blocks.Outstanding);
        }

        Assert.Equal(end, tail);
        // Each holds at most 128 KiB.
        Assert.InRange(most, 0, 12);
        rig.Until(() => session.BytesPending == 0 && session.BytesSent == length, "all to be counted");
        rig.Until(() => source.OpenFile.Handle.IsClosed, "the file to be closed");
    });

    [Theory, Contract(20)]
    [InlineData(false)]
    [InlineData(true)]
    public void A_file_that_is_cut_off_ends_the_connection(bool closes) => Run(rig =>
    {
        int large = LargeOf(rig);
        using TestFile file = new(large, []);
        FileSource source = new(file.Path);
        (RecordingSession session, Peer peer) = Wide(rig);
        Assert.Equal(SendResult.Queued, session.Send(Outgoing.File(source, 0, large)));
        Assert.Equal(SendResult.Queued, session.Send("never sent"u8));
        rig.Settle();
        file.CutTo(large / 2);
        if (closes) session.Close();
        long got = 0;
        bool ended = false;
        byte[] buffer = new byte[256 * 1024];
        rig.Until(
            () =>
            {
                try
                {
                    int count;
                    while ((count = peer.TryRead(buffer)) > 0)
                    {
                        got += count;
                        if (buffer.AsSpan(0, count).ContainsAnyExcept((byte)0)) return true;
                    }

                    return ended = count == 0;
                }
                catch (IOException)
                {
                    return ended = true;
                }
            },
            "the peer to see the end");
        Assert.True(ended, "data arrived after the file");
        Assert.InRange(got, 0, large / 2);
        // The first cause wins; but the peer gets no orderly end, and a diagnostic event is raised.
        Assert.Equal(closes ? CloseCause.LocalClose : CloseCause.FileFailed, session.End());
        if (!closes) Assert.IsType<EndOfStreamException>(session.Reason.Exception);
        Assert.Contains(rig.Notices, static n => n.Page == "file-failed.md");
        UntilClosed(rig, source);
    });

    [Fact, Contract(20)]
    public void A_close_after_a_file_waits_for_it_and_an_abort_does_not() => Run(rig =>
    {
        int large = LargeOf(rig);
        foreach (bool aborts in (bool[])[false, true])
        {
            using TestFile file = new(large, []);
            FileSource source = new(file.Path);
            (RecordingSession session, Peer peer) = Wide(rig);
            Assert.Equal(SendResult.Queued, session.Send(Outgoing.File(source, 0, large)));
            rig.Settle();
            if (aborts)
            {
                session.Abort();
                Assert.Equal(CloseCause.LocalAbort, session.End());
            }
            else
            {
                session.Close();
                ReadZeros(rig, peer, large);
                Assert.Empty(peer.ReadToEnd());
                peer.Close();
                Assert.Equal(CloseCause.LocalClose, session.End());
            }

            UntilClosed(rig, source);
        }
    });

    [Fact, Contract(20)]
    public void ShutdownSend_after_a_file_ends_this_half_after_it() => Run(rig =>
    {
        byte[] data = Pattern(400_000);
        using TestFile file = new(data);
        FileSource source = new(file.Path);
        RecordingServer server = rig.Serve(s =>
        {
            s.AtEndOfStream = static x => x.Close();
            s.AtReceived = (x, _) =>
            {
                x.Send(Outgoing.File(source, 0, data.Length));
                x.ShutdownSend();
            };
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("go");
        Assert.Equal(data, peer.ReadToEnd());
        peer.ShutdownSend();
        server.Connected().End();
        UntilClosed(rig, source);
    });

    [Fact, Contract(16, 20)]
    public void A_file_queued_before_an_upgrade_is_sent_in_the_clear() => Run(rig =>
    {
        if (rig.Tls != TlsKind.None) return; // it has TLS already
        byte[] data = Pattern(500_000);
        using TestFile file = new(data);
        FileSource source = new(file.Path);
        RecordingServer server = rig.Serve(s => s.AtData = (x, unread) =>
        {
            if (x.Tls is null)
            {
                if (unread.Length < 8) return 0;
                x.Send(Outgoing.File(source, 0, data.Length).WithHead("go "u8));
                // With thread-pool scheduling the file is sent before the upgrade, and a fast peer may start in
                // between.
                x.CallUpgrade(rig.WithProvider(TestCertificates.ServerOptions),
                    rig.IsPool ? UnreadBytes.PassToTls : UnreadBytes.Refuse);
            }
            else
            {
                x.Send(unread);
                x.Send(Outgoing.File(source, 7, 100_000));
            }

            return unread.Length;
        });
        Peer raw = rig.ConnectPeer(server.EndPoint!);
        raw.Write("STARTTLS");
        Assert.Equal([.. "go "u8, .. data], raw.Read(3 + data.Length));
        TlsPeer peer = rig.Secure(raw, isAccepted: false, rig.WithProvider(TestCertificates.ClientOptions));
        peer.Write("inside");
        Assert.Equal([.. "inside"u8, .. data[7..100_007]], peer.Read(100_006));
        UntilClosed(rig, source);
        rig.Until(() => server.Connected().BytesPending == 0, "all to be counted");
        peer.Close();
        server.Connected().End();
    });

    [Fact, Contract(20)]
    public void A_peer_that_resets_gives_the_file_back() => Run(rig =>
    {
        int large = LargeOf(rig);
        using TestFile file = new(large, []);
        FileSource source = new(file.Path);
        (RecordingSession session, Peer peer) = Wide(rig);
        Assert.Equal(SendResult.Queued, session.Send(Outgoing.File(source, 0, large)));
        rig.Settle();
        peer.Reset();
        session.End();
        UntilClosed(rig, source);
        Assert.Equal(SendResult.Closed, session.Send("late"u8));
    });

    [Fact, Contract(20)]
    public void Many_connections_send_one_file() => Run(rig =>
    {
        byte[] data = Pattern(200_000);
        using TestFile file = new(data);
        FileSource source = new(file.Path);
        FileSource second = source.AddReference();
        RecordingServer server =
            rig.Serve(s => s.AtConnected = x => x.Send(Outgoing.File(source, 0, data.Length).WithHead("x"u8)));
        Peer[] peers = [.. Enumerable.Range(0, 20).Select(_ => rig.ConnectPeer(server.EndPoint!))];
        foreach (Peer peer in peers) Assert.Equal([(byte)'x', .. data], peer.Read(data.Length + 1));
        source.Dispose();
        // Some are sending it when the last reference is released.
        foreach (RecordingSession session in rig.Sessions)
            Assert.Equal(SendResult.Queued, session.Send(Outgoing.File(second, 0, data.Length)));
        second.Dispose();
        foreach (Peer peer in peers) Assert.Equal(data, peer.Read(data.Length));
        rig.Until(() => source.OpenFile.Handle.IsClosed, "the file to be closed");
    });

    [Fact, Contract(20)]
    public void SendAsync_of_a_file_waits_for_space_in_FIFO_order() => Run(rig =>
    {
        byte[] data = Pattern(100_000);
        using TestFile file = new(data);
        FileSource source = new(file.Path);
        (RecordingSession session, Peer peer) = Pair(rig);
        byte[] before = [.. Clog(rig, session), .. FillTo(rig, session, FileRange.ChargeBytes + 3)];
        // One byte more than there is space for; a second send waits after it although it would fit.
        ValueTask<SendResult> first = session.SendAsync(Outgoing.File(source, 0, data.Length)
            .WithHead("head"u8.ToArray()));
        ValueTask<SendResult> second = session.SendAsync(Outgoing.File(source, 10, 20));
        using CancellationTokenSource cancel = new();
        ValueTask<SendResult> third = session.SendAsync(Outgoing.File(source, 0, 5).WithHead("not this"u8.ToArray()),
            cancel.Token);
        rig.Settle();
        Assert.False(first.IsCompleted || second.IsCompleted || third.IsCompleted);
        cancel.Cancel();
        rig.Until(() => third.IsCompleted, "the third to be given up");
        Assert.True(third.IsCanceled);
        Assert.Equal([.. before, .. "head"u8, .. data, .. data[10..30]],
            peer.Read(before.Length + 4 + data.Length + 20));
        Assert.Equal((SendResult.Queued, SendResult.Queued), (rig.Await(first), rig.Await(second)));
        // With space it is queued immediately.
        Assert.Equal(SendResult.Queued,
            rig.Await(session.SendAsync(Outgoing.File(source, 0, data.Length).WithHead("again "u8.ToArray()))));
        Assert.Equal([.. "again "u8, .. data], peer.Read(6 + data.Length));
        UntilClosed(rig, source);
    });

    [Fact, Contract(20)]
    public void SendAsync_of_a_file_gives_it_back_when_the_connection_ends() => Run(rig =>
    {
        int large = LargeOf(rig);
        using TestFile file = new(large, []);
        FileSource source = new(file.Path);
        (RecordingSession session, Peer peer) = Pair(rig, limit: 4096);
        for (int i = 0; i < 4; i++) Assert.Equal(SendResult.Queued, session.Send(Outgoing.File(source, 0, large)));
        ValueTask<SendResult> waiting = session.SendAsync(Outgoing.File(source, 0, large));
        rig.Settle();
        Assert.False(waiting.IsCompleted);
        peer.Reset();
        Assert.Equal(SendResult.Closed, rig.Await(waiting));
        session.End();
        Assert.Equal(SendResult.Closed, rig.Await(session.SendAsync(Outgoing.File(source, 0, large))));
        UntilClosed(rig, source);
    });

    [Fact, Contract(20)]
    public void Files_of_many_threads_arrive_whole_and_each_thread_in_its_order() => Run(rig =>
    {
        const int Threads = 4;
        const int Messages = 25;
        using TestFile file = new(Pattern(70_000));
        byte[] bytes = File.ReadAllBytes(file.Path);
        FileSource source = new(file.Path);
        (RecordingSession session, Peer peer) = Pair(rig, limit: 1024 * 1024);
        for (int t = 0; t < Threads; t++)
        {
            byte[] head = [(byte)t, 0];
            Repeat(rig, () =>
            {
                // Every second message has a file, the others only a head.
                bool hasFile = head[1] % 2 == 0;
                if ((hasFile ? session.Send(Outgoing.File(source, head[1], 60_000).WithHead(head)) : session.Send(head))
                    != SendResult.Queued)
                    return false;
                return ++head[1] == Messages;
            });
        }

        int[] next = new int[Threads];
        for (int i = 0; i < Threads * Messages; i++)
        {
            byte[] head = peer.Read(2);
            Assert.Equal(next[head[0]]++, head[1]);
            if (head[1] % 2 == 0) Assert.Equal(bytes[head[1]..(head[1] + 60_000)], peer.Read(60_000));
        }

        rig.Join();
        UntilClosed(rig, source);
    });

    /// <summary>With default socket buffers, so that large files are fast.</summary>
    private static (RecordingSession Session, Peer Peer) Wide(Rig rig, Action<RecordingSession>? setUp = null)
    {
        RecordingServer server = rig.Serve(setUp);
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        return (server.Connected(), peer);
    }

    private static void ReadZeros(Rig rig, Peer peer, long count)
    {
        byte[] buffer = new byte[512 * 1024];
        while (count > 0)
        {
            int got = 0;
            rig.Until(() => (got = peer.TryRead(buffer.AsSpan(0, (int)Math.Min(count, buffer.Length)))) > 0,
                $"{count} more bytes");
            Assert.False(buffer.AsSpan(0, got).ContainsAnyExcept((byte)0));
            count -= got;
        }
    }

    /// <summary>The test releases the file, and queued sends release it soon.</summary>
    private static void UntilClosed(Rig rig, FileSource source)
    {
        if (source.OpenFile.HasReferences) source.Dispose();
        rig.Until(() => source.OpenFile.Handle.IsClosed, "the file to be closed");
    }
}
