namespace Whimbrel.Conformance;

/// <summary>Flush: data sent by a callback leaves while the callback still runs (contract 14), on the loop as
/// well.</summary>
public abstract class FlushSuite(Transport transport) : TrafficSuite(transport)
{
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(15);

    [Fact, Contract(14)]
    public void Data_sent_before_a_Flush_is_sent_while_the_callback_continues() => Run(rig =>
    {
        using SemaphoreSlim read = new(0);
        int gaveUp = 0;
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, _) =>
        {
            for (int i = 0; i < 3; i++)
            {
                x.Send("1"u8);
                x.CallReserve(10)[0] = (byte)'2';
                x.CallCommit(1);
                if (rig.IsVirtual)
                {
                    // The memory engine has one thread. It shows only whether the inbox is listed.
                    if (rig.IsPool) Assert.Equal(i > 0, x.Loop.Mailbox.Any);
                    x.Flush();
                    if (rig.IsPool) Assert.True(x.Loop.Mailbox.Any);
                    continue;
                }

                x.Flush();
                if (!read.Wait(s_patience)) gaveUp++;
            }

            x.Send("end"u8);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        server.Connected();
        // On the loop nothing is sent while another send is pending, here that of the handshake's last flight.
        rig.Settle();
        peer.Write("x");
        for (int i = 0; i < 3; i++)
        {
            Assert.Equal("12", peer.ReadText(2));
            read.Release();
        }

        Assert.Equal("end", peer.ReadText(3));
        Assert.Equal(0, gaveUp);
    });

    [Fact, Contract(6, 14)]
    public void Data_accepted_by_SendAsync_is_sent_while_the_callback_continues() => Run(rig =>
    {
        Assert.SkipUnless(rig.IsPool && !rig.IsVirtual,
            "Only a callback on the pool of a real engine sends before it returns.");
        using SemaphoreSlim read = new(0);
        int gaveUp = 0;
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, _) =>
        {
            x.Send("1"u8);
            Assert.True(x.SendAsync("2"u8.ToArray()).IsCompleted);
            if (!read.Wait(s_patience)) gaveUp++;
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        server.Connected();
        peer.Write("x");
        Assert.Equal("12", peer.ReadText(2));
        read.Release();
        peer.Close();
        server.Session().End();
        Assert.Equal(0, gaveUp);
    });

    [Fact, Contract(14)]
    public void A_callback_that_sends_much_does_not_keep_it_until_it_returns() => Run(rig =>
    {
        Assert.SkipUnless(rig.IsPool && !rig.IsVirtual, "Only callbacks on the pool of a real engine send meanwhile.");
        byte[] all = Pattern(256 * 1024, 5);
        using ManualResetEventSlim read = new();
        bool wasRead = false;
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, _) =>
        {
            for (int at = 0; at < all.Length; at += 1024) Assert.Equal(SendResult.Queued, x.Send(all.AsSpan(at, 1024)));
            wasRead = read.Wait(s_patience);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        server.Connected();
        peer.Write("x");
        const int last = 64 * 1024;
        Assert.True(peer.Read(all.Length - last).AsSpan().SequenceEqual(all.AsSpan(0, all.Length - last)));
        read.Set();
        Assert.True(peer.Read(last).AsSpan().SequenceEqual(all.AsSpan(all.Length - last)));
        peer.Close();
        server.Session().End();
        Assert.True(wasRead, "the data waited for the end of the callback");
    });

    [Fact, Contract(14)]
    public void A_Flush_sends_all_that_the_kernel_accepts_and_the_rest_follows_in_order() => Run(rig =>
    {
        byte[] all = Pattern(3_000_000, 4);
        RecordingServer server = rig.Serve(
            s => s.AtReceived = (x, _) =>
            {
                for (int at = 0; at < all.Length; at += 10_000)
                {
                    x.Send(all.AsSpan(at, 10_000));
                    x.Flush();
                }
            },
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Limits = new() { SendBytes = 4_000_000 },
                Socket = new() { SendBufferBytes = 8192 }
            });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        Assert.True(peer.Read(all.Length).AsSpan().SequenceEqual(all));
        rig.Until(() => server.Connected().BytesPending == 0, "nothing to be pending");
    });

    [Fact, Contract(5, 14)]
    public void A_Flush_without_data_with_reserved_space_or_at_the_end_has_no_effect() => Run(rig =>
    {
        RecordingServer server = rig.Serve(s =>
        {
            s.AtConnecting = static x => x.Flush();
            s.AtConnected = static x => x.Flush();
            s.AtReceived = (x, _) =>
            {
                x.Flush();
                x.Send("a"u8);
                x.CallReserve(3)[0] = (byte)'b';
                x.Flush(); // nothing overtakes it, and it can still be committed
                x.CallCommit(1);
                x.Send("c"u8);
                x.Flush();
                x.Flush();
                x.Send("d"u8);
                x.Close();
                x.Flush();
            };
            s.AtDisconnecting = static (x, _) => x.Flush();
            s.AtDisconnected = static (x, _) => x.Flush();
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        rig.Elsewhere(session.Flush);
        rig.Join();
        peer.Write("x");
        Assert.Equal("abcd", peer.ReadTextToEnd());
        peer.Close();
        Assert.Equal(CloseCause.LocalClose, session.End());
        session.Flush();
        new RecordingSession(rig).Flush();
    });

    [Fact, Contract(14)]
    public void A_Flush_wakes_the_loop_also_when_every_thread_of_the_pool_is_busy() => Run(
        rig =>
        {
            Assert.SkipUnless(rig.IsPool && !rig.IsVirtual && rig.Engine.Kind is EngineKind.Epoll or EngineKind.Uring
                && rig.Tls == TlsKind.None,
                "Needs callbacks on the pool and an engine that does not use the pool itself.");
            using ManualResetEventSlim begun = new();
            using ManualResetEventSlim go = new();
            using ManualResetEventSlim read = new();
            RecordingServer server = rig.Serve(s => s.AtReceived = (x, _) =>
            {
                begun.Set();
                go.Wait(s_patience);
                x.Send("now"u8);
                x.Flush();
                read.Wait(s_patience);
            });
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            peer.Write("x");
            Assert.True(begun.Wait(s_patience));
            using BusyPool busy = new();
            rig.Until(() => rig.Engine.GetLoop(0).Mailbox.IsLoopAsleep, "the loop to sleep");
            go.Set();
            Assert.Equal("now", peer.ReadText(3));
            Assert.True(busy.IsBusy);
            read.Set();
        },
        loops: 1);
}
