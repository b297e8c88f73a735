using System.Runtime.CompilerServices;
using Whimbrel.Diagnostics;

namespace Whimbrel.Connections;

/// <summary>The receiving half: unread bytes, pause, back-pressure, the peer's FIN (contracts 3, 9, 10, 11).</summary>
internal sealed partial class Connection
{
    /// <summary>Input discarded after Close before the connection is reset.</summary>
    private const int LingerLimitBytes = 64 * 1024;

    private ReceiveGate _gate;
    private UnreadStore _unread;
    private int _atLeast;
    private long _bytesReceived;
    private int _discarded;
    private bool _offerPending;
    private bool _heldFinish;
    private bool _isReceiving;

    internal long BytesReceived => _bytesReceived;

    internal int UnreadCount => _unread.Length;

    internal bool IsPaused => (_gate & ReceiveGate.User) != 0;

    /// <summary>Not read because another loop has not caught up with what its session sent there.</summary>
    internal bool IsHeldForMailbox => (_gate & ReceiveGate.Mailbox) != 0;

    /// <summary>Not read because of its own full queue (contract 9).</summary>
    internal bool IsHeldBack => (_gate & ReceiveGate.BackPressure) != 0;

    // Back-pressure: reading, and what was left unread, go on when no more than this is pending.
    private long _goesOnAt;
    private bool _offerOwed; // without holding (BackPressure is off): only what was left unread waits
    private bool _knowsOfQueue; // the running callback asked what is pending, or was refused

    /// <summary>Above this a session's own callbacks are held back: 256 KiB, or a quarter of a smaller limit.</summary>
    internal long HoldMark => Math.Min(BackPressureMark, _queue.Limit / 4);

    private bool WaitsForQueue => _offerOwed || (_gate & ReceiveGate.BackPressure) != 0;

    /// <summary>The running callback has seen that something is pending: what it leaves unread, it leaves because of that.</summary>
    internal void KnowsOfQueue() => _knowsOfQueue = true;

    /// <summary>Reading stops because of what is pending. With <paramref name="untilEmpty"/> it does not help that only a part of it leaves.</summary>
    private void HoldBack(bool untilEmpty)
    {
        _goesOnAt = untilEmpty ? 0 : Math.Max(0, (HoldMark / 4) - 1);
        if (_shard.Host.BackPressure) Shut(ReceiveGate.BackPressure);
        else _offerOwed = true;
        if (PendingHere <= _goesOnAt) Loop.Schedule(this);
    }

    private void EndBackPressure()
    {
        _offerOwed = false;
        if (_strand is null && _unread.Length > 0) _offerPending = true;
        Open(ReceiveGate.BackPressure);
        Loop.Schedule(this);
        // Last: the session on the pool may run at once, and must not find itself held back still.
        _strand?.ReleaseBackPressure();
    }

    /// <summary>The engine received these bytes. Valid during the call.</summary>
    internal void CompleteReceive(ReadOnlySpan<byte> data)
    {
        Loop.CountReceived(data.Length);
        if (_tls is not null) ReceiveCipher(data);
        else Deliver(data);
    }

    /// <summary>Plain bytes, or those that the layer made plain.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private void Deliver(ReadOnlySpan<byte> data)
    {
        _bytesReceived += data.Length;
        _shard.BytesReceived += data.Length;
        if (_state != ConnectionState.Open)
        {
            DiscardInput(data.Length);
            return;
        }

        if (_gate != ReceiveGate.None)
        {
            // The engine had taken them before it was told to stop: kept, and first after resume.
            _unread.Append(data);
            _offerPending = true;
            return;
        }

        if (_unread.Length == 0 && data.Length >= _atLeast)
        {
            int taken = Offer(data);
            if (_state is not (ConnectionState.Open or ConnectionState.Concluding)) return;
            _unread.Append(data[taken..]);
            AfterOffer(taken);
        }
        else
        {
            _unread.Append(data);
            OfferUnread();
        }

        Loop.FlushIfMany();
    }

    /// <summary>Offers what is unread, if it is enough for the session.</summary>
    private void OfferUnread()
    {
        if (_unread.Length == 0) return;
        // While the FIN is held back, its own offer is still to come (PeerFinished).
        if (_unread.Length < _atLeast && (!_peerFinished || _heldFinish)) return;
        int taken = Offer(_unread.Span);
        if (_state is not (ConnectionState.Open or ConnectionState.Concluding))
        {
            _unread.Clear();
            return;
        }

        _unread.Consume(taken);
        AfterOffer(taken);
    }

    /// <summary>One call of OnUnread, with the natural back-pressure around it (contract 9).</summary>
    private int Offer(ReadOnlySpan<byte> data)
    {
        if (_strand is { } strand)
        {
            if (strand.Add(data)) Shut(ReceiveGate.Pool);
            return data.Length;
        }

        long before = _queue.Queued;
        long sentBefore = _bytesSent;
        _knowsOfQueue = false;
        _atLeast = 0;
        _shard.MessagesReceived++;
        int taken;
        Loop.EnterCallback(this, "OnReceived");
        try
        {
            taken = _session.CallUnread(data);
            if ((uint)taken > (uint)data.Length) Throw.State($"OnUnread returned {taken} for {data.Length} bytes.");
        }
        catch (Exception e)
        {
            Loop.LeaveCallback();
            FailWith(e, "OnReceived");
            return 0;
        }

        Loop.LeaveCallback();
        long after = _queue.Queued;
        if (after > HoldMark && after + (_bytesSent - sentBefore) > before && _shard.Host.BackPressure) HoldBack(untilEmpty: false);
        // Left because of what is pending, if that can be: whoever finds nothing pending and takes nothing waits for more bytes.
        else if (_knowsOfQueue && taken < data.Length && (taken > 0 || before > 0) && _state == ConnectionState.Open) HoldBack(untilEmpty: true);
        return taken;
    }

    private void AfterOffer(int taken)
    {
        if (taken == 0 && _unread.Length >= _shard.Options.UnreadLimitBytes && (_gate & ReceiveGate.Reader) == 0)
        {
            Fail(new CloseReason(CloseCause.UnreadLimit));
            return;
        }

        if (_next is not null || _upgrade is not null) AfterCallback();
    }

    internal void NeedBytes(int count)
    {
        CheckNeedBytes(count, _shard.Options);
        _atLeast = count;
    }

    internal static void CheckNeedBytes(int count, ConnectionOptions options)
    {
        if (count < 1 || count > options.UnreadLimitBytes) Throw.OutOfRange(nameof(count), count, $"between 1 and UnreadLimitBytes ({options.UnreadLimitBytes})");
    }

    // ------------------------------------------------------------------ the peer's end

    /// <summary>The engine read the peer's FIN; it stops receiving by itself.</summary>
    internal void CompleteReceiveEnd()
    {
        _isReceiving = false;
        if (_tls is { } tls && TakesInput)
        {
            if (_sendError == 0 || _state == ConnectionState.Handshaking)
            {
                CipherFinished(tls);
                return;
            }
        }

        switch (_state)
        {
            case ConnectionState.Open or ConnectionState.Concluding when _sendError != 0:
                Fail(new CloseReason(ErrorText.CauseOf(_sendError), _sendError));
                break;
            case ConnectionState.Open when _gate != ReceiveGate.None || _offerPending || _offerOwed:
                _heldFinish = true;
                break;
            case ConnectionState.Open:
                PeerFinished();
                break;
            case ConnectionState.Draining:
                _peerFinished = true;
                Loop.Schedule(this);
                break;
            case ConnectionState.Lingering:
                Detach();
                break;
        }
    }

    private void PeerFinished()
    {
        _peerFinished = true;
        _gate |= ReceiveGate.Finished;
        if (_strand is { } strand)
        {
            strand.Finish();
            return;
        }

        // What the session wanted more of before looking at it: there is no more (contract 3).
        if (_atLeast > 0) OfferUnread();
        if (_state != ConnectionState.Open) return;
        if (_gate != ReceiveGate.Finished)
        {
            // It was paused by that: the end waits for the resume (contract 10).
            _gate &= ~ReceiveGate.Finished;
            _heldFinish = true;
            return;
        }

        Call("OnPeerFinished", static session => session.CallPeerFinished());
        AfterCallback();
        if (_state == ConnectionState.Open && _finishSent && SendQueueIsEmpty) CloseWith(new CloseReason(CloseCause.LocalClose));
    }

    /// <summary>Receiving failed: reset, timed out, or another error of the system.</summary>
    internal void CompleteReceiveError(int error)
    {
        _isReceiving = false;
        switch (_state)
        {
            case ConnectionState.Open or ConnectionState.Handshaking or ConnectionState.Concluding:
                int first = _sendError != 0 ? _sendError : error;
                Fail(new CloseReason(ErrorText.CauseOf(first), first));
                break;
            case ConnectionState.Draining or ConnectionState.Lingering:
                Detach();
                break;
        }
    }

    private void DiscardInput(int count)
    {
        // While draining the peer may go on sending: not reading it could keep it from reading us. After our FIN it may
        // not go on for long.
        if (_state != ConnectionState.Lingering) return;
        _discarded += count;
        if (_discarded > LingerLimitBytes)
        {
            ResetOnClose = true;
            Detach();
        }
    }

    // ------------------------------------------------------------------ the gate

    internal void PauseReceiving()
    {
        if (_state is ConnectionState.Open or ConnectionState.Handshaking or ConnectionState.Connecting) Shut(ReceiveGate.User);
    }

    internal void ResumeReceiving() => Open(ReceiveGate.User);

    /// <summary>Inside a callback: what it leaves is for a reader, who asks for it by <see cref="OfferAgain"/>.</summary>
    internal void HoldForReader()
    {
        if (_state == ConnectionState.Open) Shut(ReceiveGate.Reader);
    }

    /// <summary>What is unread comes again, also what the running callback leaves.</summary>
    internal void OfferAgain()
    {
        if (_state != ConnectionState.Open) return;
        Open(ReceiveGate.Reader);
        _offerPending = true;
        Loop.Schedule(this);
    }

    /// <summary>Inside the callback that goes on after it has returned.</summary>
    internal void HoldForCallback()
    {
        if (_state == ConnectionState.Open) Shut(ReceiveGate.Callback);
    }

    internal void ReleaseCallback() => Open(ReceiveGate.Callback);

    /// <summary>The next session is not held by what the one before had begun.</summary>
    private void EndHoldsOfSession()
    {
        if ((_gate & (ReceiveGate.Reader | ReceiveGate.Callback)) == 0) return;
        Open(ReceiveGate.Reader);
        Open(ReceiveGate.Callback);
        _offerPending = false; // the switch offers what is unread
    }

    internal void HoldForMailbox()
    {
        if (_state == ConnectionState.Open) Shut(ReceiveGate.Mailbox);
    }

    internal void ReleaseMailboxHold(uint generation)
    {
        if (generation == Generation) Open(ReceiveGate.Mailbox);
    }

    private void Shut(ReceiveGate reason)
    {
        if (_gate == ReceiveGate.None) CountHeldTime(isShut: true);
        _gate |= reason;
        UpdateReceiving();
    }

    private void Open(ReceiveGate reason)
    {
        if ((_gate & reason) == 0) return;
        _gate &= ~reason;
        if (_gate == ReceiveGate.None) CountHeldTime(isShut: false);
        if (_state != ConnectionState.Open) return;
        if (reason is ReceiveGate.User or ReceiveGate.Callback && _unread.Length > 0) _offerPending = true;
        // Not here: this may be inside a callback. The completion phase offers what is unread, then reads on.
        Loop.Schedule(this);
    }

    /// <summary>Makes the engine read exactly when the gate is open; with bytes or a FIN held back it waits for those.</summary>
    private void UpdateReceiving()
    {
        bool wanted = _state switch
        {
            _ when TakesInput && _tls is { } tls => tls.WantsInput && (tls.IsShaking || (_gate == ReceiveGate.None && !_offerPending && !_heldFinish)),
            ConnectionState.Open => _gate == ReceiveGate.None && !_offerPending && !_heldFinish,
            ConnectionState.Lingering or ConnectionState.Draining => !_peerFinished && !_heldFinish,
            _ => false,
        };
        if (wanted == _isReceiving) return;
        _isReceiving = wanted;
        if (wanted) Loop.StartReceive(this);
        else Loop.StopReceive(this);
    }
}
