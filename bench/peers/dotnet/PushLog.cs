namespace Whimbrel.Bench.Peers;

/// <summary> The push server's only log, as in peers/c/push_epoll.c: a ring of 32-byte messages that a producer thread
/// fills at full speed, and that is sent to every client from its own offset. Nothing is dropped: the producer waits
/// for the slowest client. bench/README.md defines the message. </summary>
internal sealed class PushLog
{
    private const int Size = 1024 * 1024;     // what W3 lets a session have pending
    private const int Batch = 1024;           // messages per append
    private const int SendLimit = 64 * 1024;  // bytes per send

    private readonly byte[] _ring = GC.AllocateArray<byte>(Size, pinned: true);
    private readonly object _room = new();    // the producer waits on it
    private readonly Lock _joining = new();
    private volatile Client[] _clients = [];
    private volatile TaskCompletionSource _more = NewSignal();
    private volatile bool _producerWaits;
    private long _head;                       // bytes ever appended

    public PushLog() => new Thread(Produce) { IsBackground = true, Name = "producer" }.Start();

    /// <summary>Sends everything from now on until <paramref name="send"/> returns false.</summary>
    public async Task ServeAsync(Func<ReadOnlyMemory<byte>, ValueTask<bool>> send)
    {
        var client = new Client { At = Volatile.Read(ref _head) };
        Change(clients => [.. clients, client]);
        try
        {
            while (true)
            {
                // The signal is read first: an append after this read completes it, and one before it is visible in the
                // head.
                var more = _more.Task;
                var ready = Volatile.Read(ref _head) - client.At;
                if (ready == 0)
                {
                    await more;
                    continue;
                }

                var position = (int)(client.At % Size);
                var length = (int)Math.Min(Math.Min(ready, SendLimit), Size - position);
                if (!await send(_ring.AsMemory(position, length)))
                {
                    return;
                }

                Volatile.Write(ref client.At, client.At + length);
                WakeProducer();
            }
        }
        finally
        {
            Change(clients => Array.FindAll(clients, c => c != client));
            WakeProducer();
        }
    }

    private static TaskCompletionSource NewSignal() => new(TaskCreationOptions.RunContinuationsAsynchronously);

    private void Change(Func<Client[], Client[]> change)
    {
        lock (_joining)
        {
            _clients = change(_clients);
        }
    }

    private void WakeProducer()
    {
        // Between publishing the offset and reading the flag; the producer does the same in reverse order.
        Interlocked.MemoryBarrier();
        if (_producerWaits)
        {
            lock (_room)
            {
                Monitor.Pulse(_room);
            }
        }
    }

    private void Produce()
    {
        while (true)
        {
            if (!HasRoom())
            {
                WaitForRoom();
                continue;
            }

            Append(Batch);
            var reached = _more;
            _more = NewSignal();
            reached.SetResult();
        }
    }

    private void WaitForRoom()
    {
        lock (_room)
        {
            _producerWaits = true;
            Interlocked.MemoryBarrier();
            if (!HasRoom())
            {
                // The timeout only matters while there is no client, because a joining client does not pulse.
                Monitor.Wait(_room, TimeSpan.FromMilliseconds(10));
            }

            _producerWaits = false;
        }
    }

    private bool HasRoom()
    {
        var clients = _clients;
        var slowest = _head;
        foreach (var client in clients)
        {
            slowest = Math.Min(slowest, Volatile.Read(ref client.At));
        }

        return clients.Length > 0 && _head - slowest <= Size - (Batch * Message.Size);
    }

    private void Append(int count)
    {
        var sequence = (ulong)_head / Message.Size;
        var position = (int)(_head % Size);
        for (var i = 0; i < count; i++, sequence++, position = (position + Message.Size) % Size)
        {
            Message.Write(_ring.AsSpan(position, Message.Size), sequence);
        }

        Volatile.Write(ref _head, _head + (count * Message.Size));
    }

    private sealed class Client
    {
        public long At;
    }
}
