namespace Whimbrel.Simulation;

// Both ends of every connection: performs random actions in every callback, and checks that the callback was due.
internal sealed partial class SimSession : Session
{
    private readonly World _world;
    private readonly SimClient? _client;
    private readonly bool _takesSome;
    private Life _life;
    private Flow _outgoing = null!;
    private Flow _incoming = null!;
    private CloseCause _firstEnd;
    private bool _isPausedForSure;
    private bool _hasEndedHere;
    private bool _isMeanwhile;
    private bool _foreignHasEnded;
    private bool _hasFinishedHere;
    private bool _peerHasFinished;
    private bool _finishMustFollow;
    private bool _offerMustFollow; // it has requested its unconsumed data again, which is passed before the FIN
    private bool _sawPending;
    private int _needed;
    private ScriptException? _thrown;
    private SimSession? _next;
    private LoopTimer? _timer;
    private int _postsToRun;

    internal SimSession(World world, SimClient? client)
    {
        _world = world;
        _client = client;
        _takesSome = world.Chance(500);
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

    internal new bool HasConnected { get; private set; }

    public override string ToString() => $"s{Number}{(_client is null ? "" : $" of client {_client.Number}")}";

    internal void Judge()
    {
        if (_life is Life.Connecting or Life.Connected) _world.Fail($"{this} never got its last callback");
        if (BytesPending != 0) _world.Fail($"{this} has {BytesPending} bytes pending after its end");
        if (IsConnected) _world.Fail($"{this} says it is connected after its end");
        if (_thrown is not null) _world.Fail($"{this} threw and never got OnError");
    }

    // ------------------------------------------------------------------ callbacks

    private void Enter(string name, params ReadOnlySpan<Life> legal)
    {
        _world.Log($"{this}.{name}");
        if (_world.Running is { } running) _world.Fail($"{this}.{name} inside {running}");
        _world.Running = $"{this}.{name}";
        if (_world.IsPool ? Connections.PoolSession.Current is null : !Loop.IsCurrent)
            _world.Fail($"{this}.{name} came off its thread");
        if (!legal.Contains(_life)) _world.Fail($"{this}.{name} came when it was {_life}");
        if (_thrown is not null && name != "OnError")
            _world.Fail($"{this}.{name} came between an exception and OnError");
        if (_finishMustFollow && name == "OnData")
            _world.Fail($"{this}.{name}: fewer bytes than needed were offered, and it was not the end");
        if (name is "OnData" or "OnTimer" or "OnEndOfStream")
        {
            if (_hasEndedHere) _world.Fail($"{this}.{name} came after it had closed");
            if (_next is not null) _world.Fail($"{this}.{name} came after HandOver");
        }
    }

    private void Leave() => _world.Running = null;

    protected override void OnConnecting()
    {
        Enter("OnConnecting", Life.New);
        try
        {
            _life = Life.Connecting;
            if (SendNothing() != SendResult.Closed) _world.Fail($"{this} could send before it was connected");
            if (_world.Chance(10)) EndHere(false);
            MaybeThrow();
        }
        finally
        {
            Leave();
        }
    }

    protected override void OnConnected()
    {
        Enter("OnConnected", Life.Connecting, Life.New);
        try
        {
            if (_life == Life.New && _outgoing is null) _world.Fail($"{this}: OnConnected without OnConnecting");
            _life = Life.Connected;
            HasConnected = true;
            if (_outgoing is null)
            {
                (Flow toServer, Flow toClient) = _world.Link(_client is null ? RemoteEndPoint : LocalEndPoint);
                (_outgoing, _incoming) = _client is null ? (toClient, toServer) : (toServer, toClient);
            }

            if (_world.Chance(500))
                StartTimer(TimeSpan.FromMilliseconds(_world.Random.Next(20)),
                    TimeSpan.FromMilliseconds(_world.Random.Next(1, 40)));
            if (_world.Chance(500)) JoinGroup(_world.Random.Next(World.GroupCount));
            ActSeveral();
        }
        finally
        {
            Leave();
        }
    }

    protected override int OnData(ReadOnlySpan<byte> unread)
    {
        Enter("OnData", Life.Connected);
        try
        {
            if (_isPausedForSure) _world.Fail($"{this}: delivery while paused");
            if (_peerHasFinished && unread.Length != _incoming.LeftoverLength)
                _world.Fail($"{this}: new bytes after OnEndOfStream");
            if (unread.IsEmpty) _world.Fail($"{this}: nothing was offered");
            // After the peer's FIN no more data can follow, and the FIN was reported already.
            if (unread.Length < _needed && !_peerHasFinished) _finishMustFollow = true;
            _needed = 0;
            _offerMustFollow = false;
            _incoming.Offered(unread);
            _sawPending = false;
            ActSeveral();
            int taken = _takesSome ? _world.Random.Next(unread.Length + 1) : unread.Length;
            // The borrowed span must be unchanged after all calls made meanwhile.
            _incoming.Took(unread, taken);
            if (_takesSome && !_hasEndedHere && _world.Chance(50))
            {
                _needed = Math.Min(_world.UnreadLimit, unread.Length - taken + _world.Random.Next(1, 200));
                SetMinimumBytes(_needed);
            }

            // It reads BytesPending at each send: unconsumed data is then passed again before the FIN (contract 9).
            if (taken < unread.Length && (BytesPending > 0 || _sawPending)) _finishMustFollow = false;
            if (_world.OffersAgain && taken < unread.Length && !_hasEndedHere && _world.Chance(500)) AskForTheRest();
            return taken;
        }
        finally
        {
            Leave();
        }
    }

    protected override void OnEndOfStream()
    {
        Enter("OnEndOfStream", Life.Connected);
        try
        {
            if (_isPausedForSure) _world.Fail($"{this}: the FIN was delivered while paused");
            if (_peerHasFinished) _world.Fail($"{this}: OnEndOfStream twice");
            if (_offerMustFollow) _world.Fail($"{this}: the FIN came before the bytes that it had asked for again");
            _finishMustFollow = false;
            _peerHasFinished = true;
            _incoming.Finished();
            ActSeveral();
            if (_world.Chance(700)) EndHere(false);
        }
        finally
        {
            Leave();
        }
    }

    protected override void OnTimer(LoopTimer timer)
    {
        Enter("OnTimer", Life.Connected);
        try
        {
            if (_isPausedForSure && _world.Chance(500)) Resume();
            ActSeveral();
        }
        finally
        {
            Leave();
        }
    }

    protected override void OnError(Exception exception)
    {
        Enter("OnError", Life.Connecting, Life.Connected, Life.Ended, Life.Failed);
        try
        {
            if (!ReferenceEquals(exception, _thrown)) _world.Fail($"{this}: OnError got {exception}");
            _thrown = null;
            _finishMustFollow = false;
            if (_world.ThrowPerMille > 0 && _world.Chance(100)) throw new ScriptException("in OnError");
        }
        finally
        {
            Leave();
        }
    }

    protected override void OnConnectFailed(CloseReason reason)
    {
        Enter("OnConnectFailed", Life.Connecting);
        try
        {
            _life = Life.Failed;
            Gone(reason);
            _client?.Connect(false);
            MaybeThrow();
        }
        finally
        {
            Leave();
        }
    }

    protected override void OnDisconnected(CloseReason reason)
    {
        Enter("OnDisconnected", Life.Connected);
        try
        {
            _life = Life.Ended;
            if (_postsToRun != 0) _world.Fail($"{this}: {_postsToRun} posts that were taken have not run");
            if (Post(static () => { })) _world.Fail($"{this} took a post in its last callback");
            if (reason.Cause == CloseCause.HandedOver)
            {
                if (_next is null) _world.Fail($"{this}: handed over without asking");
                if (_world.Chance(100)) Close();
                if (_world.Chance(100)) Abort();
            }
            else
            {
                // With thread-pool scheduling the loop may have seen another cause before the abort reached it, for
                // example an earlier failed send, which is then the first cause.
                if (!_world.IsPool && _firstEnd == CloseCause.LocalAbort
                    && reason.Cause is not (CloseCause.LocalAbort or CloseCause.PeerReset))
                    _world.Fail($"{this}: aborted first, ended as {reason}");
                if (LocalEndPoint is null) _world.Fail($"{this} has forgotten its address");
                Gone(reason);
                if (_world.Chance(600)) _client?.Connect(false);
                else if (_client is { } client && _world.Chance(300))
                    _world.Engine.Elsewhere(() => client.Connect(false));
            }

            if (SendNothing() != SendResult.Closed) _world.Fail($"{this} could send after its end");
            MaybeThrow();
        }
        finally
        {
            Leave();
        }
    }

    private void Gone(CloseReason reason)
    {
        _world.Log($"{this} ended: {reason.Cause} {reason.ErrorCode}");
        if (reason.Cause is CloseCause.None or CloseCause.SystemError) _world.Fail($"{this} ended with {reason}");
        if (_client is null) _world.ServerSessionsEnded++;
    }

    // An exception of the script is followed by OnError, unless the session has no connection any more.
    private void MaybeThrow()
    {
        if (_world.ThrowPerMille == 0 || !_world.Chance(_world.ThrowPerMille)) return;
        _thrown = new ScriptException($"{this} in {_world.Running}");
        _hasEndedHere = true;
        _world.Log($"{this} throws");
        throw _thrown;
    }
}
