using System.Net;
using Whimbrel.Connections;

namespace Whimbrel.Simulation.Kernel;

// An end of a connection on the engine: follows its plan, and checks that each callback is due and each byte correct.
internal sealed class KernelSession : Session
{
    private const int SmallPieceBytes = 2_000;

    private readonly KernelWorld _world;
    private readonly bool _isOutgoing;
    private KernelLink? _link;
    private EndPlan _plan = null!;
    private ByteTrack _outgoing = null!;
    private ByteTrack _incoming = null!;
    private Life _life;
    private int _left;
    private int _callbacks;
    private long _receivedAtPause;
    private bool _isPaused;
    private bool _hasEnded;
    private bool _hasFinished;
    private bool _peerHasFinished;
    private bool _isTimed;
    private KernelSession? _next;

    internal KernelSession(KernelWorld world, bool isOutgoing)
    {
        _world = world;
        _isOutgoing = isOutgoing;
        Number = world.Sessions.Count;
        world.Sessions.Add(this);
    }

    private enum Life
    {
        New,
        Connecting,
        Connected,
        Ended,
        Failed,
    }

    internal int Number { get; }

    internal bool IsOver => _life is Life.Ended or Life.Failed or Life.New;

    internal KernelLink? Link => _link;

    public override string ToString() =>
        $"session {Number} ({_life}, {_plan?.Style}, {_left} to send, {_incoming?.Received} of {_incoming?.Sent} "
        + $"received{(_isPaused ? ", paused" : "")}{(_peerHasFinished ? ", peer has finished" : "")}"
        + $"{(_hasFinished ? ", has finished" : "")}{(_hasEnded ? ", has ended" : "")})";

    // ------------------------------------------------------------------ callbacks

    private void Enter(string name, Life legal)
    {
        if (_world.Prints) _world.Log($"{this}.{name}");
        if (_world.Running is { } running) _world.Fail($"{name} of {this} inside {running}");
        if (_world.IsPool ? PoolSession.Current is null : !Loop.IsCurrent)
            _world.Fail($"{name} of {this} off its thread");
        if (_life != legal) _world.Fail($"{name} of {this} came when it was {_life}");
        if (name is "OnData" or "OnTimer" or "OnEndOfStream")
        {
            if (_hasEnded) _world.Fail($"{name} of {this} came after it had closed");
            if (_next is not null) _world.Fail($"{name} of {this} came after it had handed over");
        }

        _world.Running = name;
        _callbacks++;
    }

    private void Leave() => _world.Running = null;

    protected override void OnConnecting()
    {
        Enter("OnConnecting", Life.New);
        _life = Life.Connecting;
        Leave();
    }

    protected override void OnConnected()
    {
        Enter("OnConnected", _link is null ? Life.Connecting : Life.New);
        _life = Life.Connected;
        if (_link is null)
        {
            _link = _world.LinkOf((IPEndPoint)(_isOutgoing ? LocalEndPoint! : RemoteEndPoint!));
            _plan = _isOutgoing ? _link.Client : _link.Server;
            (_outgoing, _incoming) = _isOutgoing ? (_link.ToServer, _link.ToClient) : (_link.ToClient, _link.ToServer);
            _left = _plan.Style == EndStyle.Echo ? 0 : _plan.ToSend;
        }

        GoOn();
        Leave();
    }

    protected override int OnData(ReadOnlySpan<byte> unread)
    {
        Enter("OnData", Life.Connected);
        int taken = unread.Length;
        if (_isPaused) _world.Fail($"{this}: delivery while paused");
        _incoming.Check(unread);
        if (_plan.Style == EndStyle.Echo) taken = Echo(unread);
        else _incoming.Take(unread[..(taken = HowMany(unread.Length))]);
        // The borrowed span must be unchanged.
        if (taken > 0 && !_hasEnded) _incoming.CheckTaken(unread[..taken]);
        if (_world.EndOthersPerMille > 0 && _world.Dice.Chance(_world.EndOthersPerMille)) EndAnother();
        if (!_hasEnded && _plan.AbortAfter >= 0 && _callbacks > _plan.AbortAfter) EndNow();
        else if (!_hasEnded && !_isPaused && taken < unread.Length && _plan.Style != EndStyle.Echo) AskForTheRest();
        else if (!_hasEnded && !_isPaused && (taken < unread.Length || _world.Dice.Chance(_world.PausePerMille)))
            Pause();
        else if (!_hasEnded && !_isPaused && !_plan.SendsFromElsewhere && _world.Dice.Chance(_world.HandOverPerMille))
            HandOverToNext();
        else GoOn();
        Leave();
        return taken;
    }

    private int HowMany(int unread) =>
        _world.OffersAgain && _world.Dice.Chance(500) ? _world.Dice.Next(unread) : unread;

    private void AskForTheRest()
    {
        if (_world.Prints) _world.Log($"{this} asks for what it left");
        DeliverAgain();
        GoOn();
    }

    // Sent from user memory: the engine may leave it there until it is sent.
    private int Echo(ReadOnlySpan<byte> unread)
    {
        SendResult result = unread.Length > SendLimitBytes && IsConnected ? SendResult.Full : Send(unread);
        // More than the queue can ever hold is sent in pieces.
        if (result == SendResult.Full && unread.Length > SmallPieceBytes)
            result = Send(unread = unread[..SmallPieceBytes]);
        if (result == SendResult.Queued)
        {
            _outgoing.WasSent(unread.Length);
            _incoming.Take(unread);
            return unread.Length;
        }

        if (result == SendResult.Full)
        {
            Pause();
            return 0;
        }

        // The peer accepts nothing more: its end follows after what it still sent.
        if (!MayFail) _world.Fail($"{this}: an echo gave {result}");
        _incoming.Take(unread);
        return unread.Length;
    }

    private bool MayFail => _world.MayFail || !_link!.IsGraceful;

    protected override void OnEndOfStream()
    {
        Enter("OnEndOfStream", Life.Connected);
        if (_isPaused) _world.Fail($"{this}: the end while paused");
        if (_peerHasFinished) _world.Fail($"{this}: the end twice");
        _peerHasFinished = true;
        // An echo may have unread data; a session that asked for more than it leaves may not.
        if (_plan.Style != EndStyle.Echo && _incoming.Received < _incoming.Offered)
            _world.Fail($"{this}: the end came before the {_incoming.Offered - _incoming.Received} bytes that it had "
                + $"asked for again");
        _incoming.End();
        GoOn();
        // Data that it could not send back yet is passed again at the resume.
        if (!_hasEnded && !_isPaused && _incoming.Received < _incoming.Offered) Pause();
        Leave();
    }

    protected override void OnTimer(LoopTimer timer)
    {
        Enter("OnTimer", Life.Connected);
        _isTimed = false;
        if (_isPaused)
        {
            _isPaused = false;
            if (_world.StopsAtOnce && BytesReceived != _receivedAtPause)
                _world.Fail($"{this}: {BytesReceived - _receivedAtPause} bytes were received while it was paused");
            ResumeReceiving();
        }

        if (_plan.AbortAfter >= 0 && _callbacks > _plan.AbortAfter) EndNow();
        else GoOn();
        Leave();
    }

    protected override void OnError(Exception exception) => _world.Fail($"{this}: {exception}");

    protected override void OnConnectFailed(CloseReason reason)
    {
        Enter("OnConnectFailed", Life.Connecting);
        _life = Life.Failed;
        Judge(reason);
        Leave();
    }

    protected override void OnDisconnected(CloseReason reason)
    {
        Enter("OnDisconnected", Life.Connected);
        _life = Life.Ended;
        if (reason.Cause == CloseCause.HandedOver)
        {
            if (_next is null) _world.Fail($"{this} was handed over without asking");
        }
        else
        {
            Judge(reason);
        }

        Leave();
    }

    private void Judge(CloseReason reason)
    {
        if (_world.Prints) _world.Log($"{this} ended: {reason.Cause} {reason.ErrorCode}");
        if (reason.Cause == CloseCause.None) _world.Fail($"{this} ended without a reason");
        if (reason.Cause is CloseCause.SystemError or CloseCause.ResourceLimit && !_world.MayFail)
            _world.Fail($"{this} ended with {reason}");
    }

    // ------------------------------------------------------------------ actions

    private void GoOn()
    {
        if (_hasEnded || _next is not null) return;
        if (_left > 0)
        {
            if (_plan.SendsFromElsewhere && !_hasFinished) _world.Elsewhere(() => SendSome(300));
            else SendSome(1000);
        }

        EndWhenDue();
        if (!_hasEnded && _left > 0 && !_isTimed) SetTimer();
    }

    private void SetTimer()
    {
        _isTimed = true;
        StartTimer(TimeSpan.FromMilliseconds(_world.Dice.Next(4)));
    }

    private void SendSome(int perMille)
    {
        while (_left > 0 && _life == Life.Connected && !_hasEnded)
        {
            int length = Math.Min(_left, _world.Dice.Next(1, _plan.PieceBytes + 1));
            bool isFile = _world.FilePerMille > 0 && _world.Dice.Chance(_world.FilePerMille);
            SendResult result = isFile ? _outgoing.SendFromFile(this, length)
                : length > SendLimitBytes && IsConnected ? SendResult.Full
                : Send(_outgoing.NextToSend(length));
            if (_world.Prints) _world.Log($"{this} sends {length}: {result}");
            if (result == SendResult.Full) _plan.PieceBytes = Math.Min(_plan.PieceBytes, SmallPieceBytes);
            if (result != SendResult.Queued) return;
            _outgoing.WasSent(length);
            _left -= length;
            if (!_world.Dice.Chance(perMille - 200)) return;
        }
    }

    private void EndWhenDue()
    {
        if (_left > 0 || _hasEnded) return;
        switch (_plan.Style)
        {
            case EndStyle.Finish when !_hasFinished:
                _hasFinished = true;
                ShutdownSend();
                break;
            case EndStyle.Close when _incoming.Received >= _plan.Expected || _peerHasFinished:
            case EndStyle.Follow or EndStyle.Echo when _peerHasFinished && _incoming.Received == _incoming.Offered:
                _hasEnded = true;
                Close();
                break;
        }
    }

    private void EndNow()
    {
        if (_world.Prints) _world.Log($"{this} aborts");
        _hasEnded = true;
        Abort();
    }

    // Another session of the same loop, which may have an event in the same wait.
    private void EndAnother()
    {
        KernelSession? other = _world.Sessions.Find(s => !ReferenceEquals(s, this) && s._life == Life.Connected
            && !s._hasEnded && s._next is null && ReferenceEquals(s.Loop, Loop));
        if (other is null) return;
        // Its connection is no longer one that must deliver all of its bytes.
        other._plan.AbortAfter = int.MaxValue;
        other.EndNow();
    }

    private void Pause()
    {
        _isPaused = true;
        _receivedAtPause = BytesReceived;
        PauseReceiving();
        if (!_isTimed) SetTimer();
    }

    private void HandOverToNext()
    {
        _next = new KernelSession(_world, _isOutgoing)
        {
            _link = _link,
            _plan = _plan,
            _outgoing = _outgoing,
            _incoming = _incoming,
            _left = _left,
            _hasFinished = _hasFinished,
        };
        HandOver(_next);
    }
}
