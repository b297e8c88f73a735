namespace Whimbrel.Connections;

/// <summary>
/// What callbacks send while the loop sleeps goes to the system by a call of the strand's own thread, when nothing is in front of it (docs/design/0062): no wake of the loop, no
/// way there and back.
/// </summary>
/// <remarks>
/// Who may touch what the connection sends: the loop, unless the strand has said that it sends. The strand says so first and then looks whether the loop sleeps; the loop clears
/// its flag first and then, before it queues anything for the connection or closes it, looks at what the strand has said (<c>Connection.SettleStrand</c>). So one of the two sees
/// the other, and the loop waits for one system call that does not wait, at most.
/// Order: nothing that was posted to the loop waits, so nothing that happened before is passed. What the system did not take is queued before anything else of the connection.
/// Errors: the system tells of a reset once, here or to the loop that receives meanwhile. So the loop asks here (<see cref="Hear"/>) before it believes in the end of all bytes.
/// </remarks>
internal sealed partial class Strand
{
    private const int Silent = 0;
    private const int Sends = 1;
    private const int HasRest = 2;

    private int _sending; // the strand's thread; from HasRest on the loop's
    private StrandBlock? _firstRest;
    private StrandBlock? _lastRest;
    private int _restFrom; // of the first block, which are sent
    private int _error; // that a send failed with, until the loop has heard of it

    /// <summary>It is in a send, or has left a rest. Loop's thread.</summary>
    internal bool HasSent => Volatile.Read(ref _sending) != Silent;

    /// <summary>Worth a try.</summary>
    private bool MaySendHere => _loop.StrandsSend && !_sendsAreHeld && _loop.Mailbox.IsLoopAsleep && Volatile.Read(ref _sending) == Silent && _connection.IsPlain;

    /// <summary>False: nothing was done, and it is to be posted. Inside a callback.</summary>
    /// <param name="head">In front.</param>
    /// <param name="body">Behind it.</param>
    /// <param name="batch">Where both lie, given back here when they have left; null for memory of the callback's.</param>
    /// <param name="behind">Bytes that the callback has reserved for what it sends next.</param>
    private bool TrySendHere(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body, StrandBlock? batch, int behind)
    {
        if (!MaySendHere) return false;
        int length = head.Length + body.Length;
        int sent = 0;
        // Said before the flag is looked at.
        Interlocked.Exchange(ref _sending, Sends);
        try
        {
            if (_loop.Mailbox.IsLoopAsleep && !_loop.Mailbox.Any) sent = _connection.SendForStrand(head, body, length + behind, _generation);
            if (sent > 0 && sent < length) LeaveRest(head, body, sent, batch);
            if (sent < 0) Interlocked.CompareExchange(ref _error, -sent, 0);
        }
        finally
        {
            Volatile.Write(ref _sending, _firstRest is null ? Silent : HasRest);
        }

        if (sent == 0) return false;
        Sent(sent, length, batch);
        return true;
    }

    private void Sent(int sent, int length, StrandBlock? batch)
    {
        int messages = batch?.Messages ?? 1;
        bool isRestLeft = sent > 0 && sent < length;
        if (batch is not null && !isRestLeft) batch.Dispose();
        if (sent == length)
        {
            _sentBytes -= length;
            if (_shard.CountsSends) Interlocked.Add(ref _shard.MessagesSentOfStrands, messages);
        }

        _connection.TakeBackForeign(isRestLeft ? sent : length, _generation);
        if (isRestLeft) _loop.PostControl(static (_, s, _, _) => ((Strand)s!).Settle(), this);
        else if (sent < 0) _loop.PostControl(static (_, s, _, _) => ((Strand)s!).Hear(), this);
    }

    /// <summary>The caller of an awaited send may go on at once. Inside a callback. Otherwise others have a turn, when they wait for a thread of the pool.</summary>
    internal bool MaySendOn(long length)
    {
        _awaitedBytes += length;
        if (_awaitedBytes < SendPace.MostOfRun) return true;
        if (_dispatcher is not null || _loop.Engine.QueuedOnPool > 0) return false;
        _awaitedBytes = 0;
        return true;
    }

    /// <summary>Tells the connection of a send that failed, if it was not told yet. Loop's thread.</summary>
    internal void Hear()
    {
        WaitForSend();
        if (Volatile.Read(ref _error) != 0) _connection.StrandSendFailed(_generation, Interlocked.Exchange(ref _error, 0));
    }

    /// <summary>The system took less than all. The rest goes on from the block that it lies in, or is copied into some.</summary>
    private void LeaveRest(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body, int sent, StrandBlock? batch)
    {
        if (batch is not null)
        {
            _restFrom = batch.Start + sent;
            AddRest(batch);
            return;
        }

        _restFrom = 0;
        int ofHead = Math.Min(sent, head.Length);
        CopyRest(head[ofHead..]);
        CopyRest(body[(sent - ofHead)..]);
        // One message, with its last bytes.
        _lastRest!.Messages = 1;
    }

    private void CopyRest(ReadOnlySpan<byte> rest)
    {
        while (!rest.IsEmpty)
        {
            StrandBlock block = rest.Length > StrandBlock.Capacity ? _loop.StrandBlocks.TakeLarge() : _loop.StrandBlocks.Take();
            int count = Math.Min(rest.Length, block.Room.Length);
            rest[..count].CopyTo(block.Room);
            block.Length = count;
            rest = rest[count..];
            AddRest(block);
        }
    }

    private void AddRest(StrandBlock block)
    {
        if (_lastRest is null) _firstRest = block;
        else _lastRest.Next = block;
        _lastRest = block;
    }

    private void WaitForSend()
    {
        SpinWait spin = default;
        while (Volatile.Read(ref _sending) == Sends) spin.SpinOnce(sleep1Threshold: -1);
    }

    /// <summary>Waits until the strand is not in a send, and queues what is left of it. Loop's thread.</summary>
    internal void Settle()
    {
        WaitForSend();
        if (_sending != HasRest) return;
        StrandBlock? block = _firstRest;
        int from = _restFrom;
        _firstRest = _lastRest = null;
        Volatile.Write(ref _sending, Silent);
        while (block is not null)
        {
            StrandBlock? next = block.Next;
            block.Next = null;
            _connection.DrainOwned(_generation, block, from, block.Length - from);
            from = 0;
            block = next;
        }
    }
}
