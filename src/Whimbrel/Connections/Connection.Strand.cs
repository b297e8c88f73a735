using Whimbrel.Buffers;
using Whimbrel.Engines;
using Whimbrel.Linux;

namespace Whimbrel.Connections;

/// <summary>What comes back from a strand: its session's callbacks run on the pool, everything else here (contract 14). Loop's thread.</summary>
// Safe: the pieces point into spans that are fixed around the call, which keeps none of them.
internal sealed unsafe partial class Connection
{
    /// <summary>OnConnecting has returned.</summary>
    internal void StrandConnecting(bool hasEnded)
    {
        if (State is not (ConnectionState.Connecting or ConnectionState.Handshaking)) return;
        bool isShaken = State == ConnectionState.Handshaking; // its session was made after the handshake
        if (hasEnded) CloseWith(new CloseReason(CloseCause.LocalClose));
        if (!isShaken) ConnectingReturned();
        else if (State == ConnectionState.Handshaking) Greet();
    }

    /// <summary>OnTlsHandshakeStarting has returned.</summary>
    internal void StrandHandshaking(bool hasEnded)
    {
        if (_tenancy.Tls is not { Phase: TlsPhase.Greeting } tls) return;
        // In an upgrade its Close goes behind what it has sent.
        if (hasEnded && State == ConnectionState.Handshaking) CloseWith(new CloseReason(CloseCause.LocalClose));
        tls.Begin();
    }

    /// <summary>OnTlsHandshakeCompleted has returned. The session is connected now, unless it rejected the peer.</summary>
    internal void StrandHandshaked(bool hasEnded)
    {
        if (State != ConnectionState.Open || WasConnected) return;
        if (hasEnded) CloseWith(new CloseReason(CloseCause.LocalClose));
        if (State != ConnectionState.Open) return;
        _tenancy.Tls!.LeaveHandshake();
        Opened();
        // Cipher text has waited.
        Loop.Schedule(this);
    }

    /// <summary>OnEndOfStream has returned, and all bytes before it were delivered.</summary>
    internal void StrandFinished()
    {
        _tenancy.Life.PeersEndWasTold();
        if (State == ConnectionState.Open && _tenancy.Life.Own == OwnHalf.Finished && SendQueueIsEmpty)
            CloseWith(new CloseReason(CloseCause.LocalClose));
    }

    // ------------------------------------------------------------------ direct sends of a strand (Strand.Sending.cs)

    /// <summary>
    /// Sends memory of a callback without blocking. Returns the number of bytes that the kernel has accepted, or a
    /// negative error number. The strand's thread, inside a direct send.
    /// </summary>
    /// <param name="head">First bytes.</param>
    /// <param name="body">Bytes after them.</param>
    internal int SendForStrand(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body)
    {
        fixed (byte* first = head)
        fixed (byte* second = body)
        {
            IoVector* pieces = stackalloc IoVector[2];
            int count = Describe(first, head.Length, second, body.Length, pieces);
            return SendForStrand(new ReadOnlySpan<IoVector>(pieces, count));
        }
    }

    /// <summary>The same for entries taken out of the inbox, at most <see cref="Pieces.MostInRow"/>.</summary>
    internal int SendForStrand(InboxItem first)
    {
        IoVector* pieces = stackalloc IoVector[Pieces.MostInRow];
        int count = 0;
        for (InboxItem? item = first; item is not null; item = item.Next)
        {
            pieces[count++] = new IoVector { Base = item.First, Length = (nuint)item.Length };
        }

        return SendForStrand(new ReadOnlySpan<IoVector>(pieces, count));
    }

    private int SendForStrand(ReadOnlySpan<IoVector> pieces)
    {
        int sent = Loop.TrySend(this, pieces);
        if (sent <= 0) return sent;
        _tenancy.BytesSent += sent;
        Interlocked.Add(ref Shard.BytesSentOfStrands, sent);
        Interlocked.Add(ref Loop.Counters.BytesSentOfStrands, sent);
        return sent;
    }

    /// <summary>Without TLS, as far as another thread sees.</summary>
    internal bool IsPlain => Volatile.Read(ref _tenancy.Tls) is null;

    /// <summary>
    /// True if nothing is queued, in progress or waiting except these bytes of the strand, and no override reports sent
    /// bytes.
    /// </summary>
    internal bool CanSendForStrand(int reserved, uint generation) =>
        TakesSends(generation) && _tenancy.Tls is null
        && (_tenancy.Hooks & (SessionHooks.Sent | SessionHooks.Drained)) == 0
        && _queue.Blocks.IsEmpty && !_tenancy.SendInFlight && _queue.Queued == 0 && !NeedsRoom
        && _tenancy.Marks.First is null
        && _operationCount == 0 && _queue.Foreign.Bytes == (uint)reserved;

    /// <summary>
    /// Called before the loop queues something, or closes. A direct send of the strand may be running, and the bytes
    /// that the kernel does not accept of it come first.
    /// </summary>
    private void SettleStrand()
    {
        if (Strand is { HasSent: true } strand) strand.Settle();
    }

    /// <summary>
    /// A direct send has failed. A send that the loop has started since then fails by itself. Loop's thread.
    /// </summary>
    internal void StrandSendFailed(uint generation, int error)
    {
        if (generation == Generation && TakesQueued && !_tenancy.SendInFlight) FailSend(error);
    }

    /// <summary>A callback filled the queue: nothing is read until it has drained (contract 9).</summary>
    internal void HoldForStrand(uint generation, bool untilEmpty)
    {
        if (generation != Generation || State != ConnectionState.Open) return;
        HoldBack(untilEmpty);
        // It may have drained already.
        Loop.Schedule(this);
    }

    /// <summary>The next session takes over; its strand waits for that. When the connection is ending, it ends with the old one.</summary>
    internal void SwitchForStrand(Session next, uint generation)
    {
        if (generation != Generation || (State != ConnectionState.Open && !IsBeginning)) return;
        ReplaceSession(next);
        Strand!.PostHandedOver(next, WasConnected);
        LookInNextTurn();
        if (_tenancy.Life.Heard == Heard.ServerStopping) Strand.Tell(SessionCallback.ServerStopping);
    }

    /// <summary>The strand runs here and has nothing left: from now on its session is called at once. False while something is under way that it takes part in.</summary>
    internal bool TryLeaveStrand(uint generation)
    {
        if (generation != Generation || State != ConnectionState.Open || !WasConnected) return false;
        if (_tenancy.Tls is { IsShaking: true }) return false;
        // First: somebody who posts looks at both, in the other order.
        Session.StartPosts();
        _tenancy.Strand = null;
        return true;
    }

    internal void DrainBroadcastGate(uint generation, BroadcastGate gate)
    {
        if (generation == Generation) BroadcastGate = gate;
    }
}
