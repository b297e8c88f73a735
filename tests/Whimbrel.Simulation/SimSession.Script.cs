using Whimbrel.Connections;

namespace Whimbrel.Simulation;

// Random actions of a session in its callbacks, and of other threads on it.
internal sealed partial class SimSession
{
    private void ActSeveral()
    {
        for (int count = _world.Random.Next(4); count > 0; count--) Act();
        MaybeThrow();
    }

    private void Act()
    {
        if (_world.Budget <= 0) return;
        _world.Budget--;
        if (_world.Chance(_world.EndingPerMille))
        {
            EndHere(true);
            return;
        }

        if (_world.Posts && _world.Chance(100))
        {
            PostSomething();
            return;
        }

        switch (_world.Random.Next(20))
        {
            case < 8:
                SendSomething();
                break;
            case < 10:
                BroadcastSomething();
                break;
            case 10:
                JoinGroup(_world.Random.Next(World.GroupCount));
                break;
            case 11:
                _world.Groups[_world.Random.Next(World.GroupCount)].Leave(this);
                break;
            case 12:
                Pause();
                break;
            case 13:
                SendWaiting();
                break;
            case 14:
                MoveTimer();
                break;
            case 15:
                MoveGate();
                break;
            case 16 when _world.Chance(300):
                HandOverToAnother();
                break;
            default:
                if (_world.ActsInside && _world.Chance(500)) ActMeanwhile();
                else _world.Engine.Elsewhere(ActElsewhere);
                break;
        }
    }

    // Another thread runs in the middle of this callback: its posts are reserved but not processed while the callback
    // continues and may send, close or hand over.
    private void ActMeanwhile()
    {
        _world.Log($"{this}: meanwhile elsewhere");
        string? running = _world.Running;
        _isMeanwhile = true;
        Loop.RunOffLoop(static session => ((SimSession)session!).ActElsewhere(), this);
        _isMeanwhile = false;
        _world.Running = running;
    }

    private void ActElsewhere()
    {
        if (_world.Budget <= 0) return;
        _world.Budget--;
        if (_world.Chance(_world.EndingPerMille))
        {
            EndElsewhere();
            return;
        }

        if (_world.Posts && _world.Chance(150))
        {
            PostSomething();
            return;
        }

        switch (_world.Random.Next(10))
        {
            case < 4:
                SendSomething();
                break;
            case < 6:
                BroadcastSomething();
                break;
            case 6:
                SendWaiting();
                break;
            case 7 when _isMeanwhile:
                // A resume posted before the callback pauses takes effect after it, so the model cannot judge that
                // pause.
                SendSomething();
                break;
            case 7:
                _isPausedForSure = false;
                if (_world.Chance(500)) PauseReceiving();
                ResumeReceiving();
                break;
            case 8:
                JoinGroup(_world.Random.Next(World.GroupCount));
                if (_world.Chance(300)) _world.Groups[_world.Random.Next(World.GroupCount)].Leave(this);
                break;
            default:
                if (_client is { } client && _world.Chance(100)) client.Disconnect();
                else if (_world.Server.FindSession(Id) is SimSession { HasConnected: true } found)
                    found.SendSomething();
                break;
        }
    }

    // ------------------------------------------------------------------ posts (contract 18)

    private void PostSomething()
    {
        bool hasRun = false;
        bool taken = Post(() =>
        {
            if (hasRun) _world.Fail($"{this}: a post ran twice");
            hasRun = true;
            RunPost();
        });
        _world.Log($"{this}: a post is {(taken ? "taken" : "refused")}");
        if (!taken) return;
        if (_life != Life.Connected) _world.Fail($"{this} took a post when it was {_life}");
        _postsToRun++;
    }

    private void RunPost()
    {
        Enter("a post", Life.Connected);
        try
        {
            _postsToRun--;
            // A post made before a close may still send after it, which the model cannot judge.
            if (_hasEndedHere || _hasFinishedHere || _foreignHasEnded || !IsConnected) return;
            if (_world.Chance(600)) SendSomething();
            if (_world.Chance(200)) BroadcastSomething();
            if (_world.Chance(100) && _next is null) Pause();
            if (_next is null) MaybeThrow();
        }
        finally
        {
            Leave();
        }
    }

    // ------------------------------------------------------------------ sending

    // Thread or strand that runs the callbacks of this session.
    private bool IsHere => _world.IsPool
        ? Connection is { } connection && PoolSession.CurrentOf(connection, Generation) is not null
        : Loop.IsCurrent;

    private SendResult SendNothing() => Send(ReadOnlySpan<byte>.Empty);

    private int Size() => Flow.HeaderBytes + _world.Random.Next(4) switch
    {
        0 => 0,
        1 => _world.Random.Next(64),
        2 => _world.Random.Next(Math.Min(2_000, _world.LargestMessage)),
        _ => _world.Random.Next(_world.LargestMessage),
    };

    private void SendSomething()
    {
        if (_outgoing is null) return;
        if (_world.SendsToEach && _world.Chance(400))
        {
            SendToSeveral();
            return;
        }

        int lane = _world.Lane;
        byte[] message = Flow.Message(World.Direct, lane, _outgoing.Key, _world.NextNumber(lane), Size());
        int number = BitConverter.ToInt32(message, 12);
        bool mayReserve = lane != 0 && IsHere && message.Length <= 32 * 1024;
        SendResult result;
        string how;
        // Recorded before the peer can read it.
        Flow.Promise promise = _outgoing.Add(lane, number, message.Length, Flow.Fate.Open);
        int form = _world.Random.Next(mayReserve ? 5 : 3);
        if (message.Length > _world.SendLimit)
        {
            SendTooLarge(promise, message);
            return;
        }

        switch (form)
        {
            case 0:
                how = "in two";
                int cut = _world.Random.Next(message.Length + 1);
                result = Send(Outgoing.Pieces(message.AsSpan(0, cut), message.AsSpan(cut)));
                break;
            case 1:
                how = "owned";
                result = SendMemory(message);
                break;
            case 3:
                how = "reserved";
                result = SendReserved(message);
                break;
            default:
                how = "copied";
                result = Send(message.AsSpan());
                if (result == SendResult.Queued) message.AsSpan().Fill(0xEE);
                break;
        }

        _world.Log($"{this} sends {promise.Length} bytes {how}, caller {lane}, number {number}: {result}, "
            + $"{BytesPending} pending");
        WasSent(promise, lane, result);
    }

    // More than the queue can ever hold: throws, unless the connection has ended, and no byte of it arrives.
    private void SendTooLarge(Flow.Promise promise, byte[] message)
    {
        try
        {
            SendResult result = Send(message.AsSpan());
            if (result != SendResult.Closed)
                _world.Fail(
                    $"{this}: a send of {message.Length} bytes with a limit of {_world.SendLimit} gave {result}");
        }
        catch (ArgumentException)
        {
            _world.Log($"{this} cannot send {message.Length} bytes, number {promise.Number}");
        }

        _outgoing.Resolve(promise, SendResult.Full);
    }

    private void WasSent(Flow.Promise promise, int lane, SendResult result)
    {
        _sawPending |= BytesPending > 0 || result == SendResult.Full;
        _outgoing.Resolve(promise, result);
        if (result == SendResult.Closed) return;
        if (_hasFinishedHere && lane != 0 && IsHere) _world.Fail($"{this}: a send after its close gave {result}");
        if (_foreignHasEnded && lane == 0)
            _world.Fail($"{this}: a send of another thread after its close gave {result}");
        if (BytesPending > _world.SendLimit + (64 * 1024)) _world.Fail($"{this} has {BytesPending} bytes pending");
    }

    // One message to some of the connected sessions, at most once to each.
    private void SendToSeveral()
    {
        int lane = _world.Lane;
        byte[] message = Flow.Message(World.ToEach, lane, 0, _world.NextNumber(lane), Size());
        int number = BitConverter.ToInt32(message, 12);
        List<SimSession> receivers = [];
        foreach (SimSession session in _world.Sessions)
        {
            if (session is { HasConnected: true, _next: null } && _world.Chance(600)) receivers.Add(session);
        }

        // Recorded before the peers can read it.
        Flow.Promise[] promises = [.. receivers.Select(
            r => r._outgoing.Add(lane, number, message.Length, Flow.Fate.Open))];
        SendResult[] results = new SendResult[receivers.Count + _world.Random.Next(2)];
        int taken = 0;
        try
        {
            taken = SendToEach(message, receivers.ToArray(), results);
        }
        catch (ArgumentException) when (message.Length > _world.SendLimit)
        {
            // No receiver gets it.
            for (int i = 0; i < receivers.Count; i++) receivers[i]._outgoing.Resolve(promises[i], SendResult.Full);
            return;
        }

        message.AsSpan().Fill(0xEE);
        _world.Log($"{this} sends {message.Length} bytes to each of "
            + $"{string.Join(", ", receivers.Select((r, i) => $"{r}: {results[i]}"))}, caller {lane}, number {number}");
        int queued = results.AsSpan(0, receivers.Count).Count(SendResult.Queued);
        if (taken != queued) _world.Fail($"{this}: {queued} accepted it, but {taken} are reported");
        for (int i = 0; i < receivers.Count; i++) receivers[i].WasSent(promises[i], lane, results[i]);
    }

    private SendResult SendMemory(byte[] message)
    {
        CountedMemory memory = new(_world, message);
        _world.OwnedAlive++;
        SendResult result = Send(Outgoing.Owned(memory, message.Length));
        if (result != SendResult.Queued) memory.Dispose();
        return result;
    }

    private SendResult SendReserved(byte[] message)
    {
        if (_world.Chance(200) && !Reserve(Math.Min(_world.Random.Next(1, 32 * 1024), _world.SendLimit)).IsEmpty)
            Commit(0);
        Span<byte> room = Reserve(message.Length);
        if (room.IsEmpty) return SendNothing() == SendResult.Closed ? SendResult.Closed : SendResult.Full;
        message.CopyTo(room);
        Commit(message.Length);
        return SendResult.Queued;
    }

    private void SendWaiting()
    {
        if (_outgoing is null) return;
        int lane = _world.Lane;
        int size = _world.Chance(200) ? Math.Min(_world.SendLimit + Size(), 200_000) : Size();
        if (_world.LargestMessage < 10_000) size = Math.Min(size, 10_000);
        byte[] message = Flow.Message(World.Direct, lane, _outgoing.Key, _world.NextNumber(lane), size);
        Flow.Promise promise = _outgoing.Add(lane, BitConverter.ToInt32(message, 12), message.Length, Flow.Fate.Open);
        CancellationTokenSource? cancellation = _world.Chance(300) ? new CancellationTokenSource() : null;
        _world.Log($"{this} sends {size} bytes waiting, caller {lane}, number {promise.Number}");
        _ = AwaitSend(SendAsync(message, cancellation?.Token ?? default), promise, message);
        if (cancellation is null) return;
        if (_world.Chance(500)) _world.Engine.Elsewhere(cancellation.Cancel);
        else Loop.StartTimer(TimeSpan.FromMilliseconds(_world.Random.Next(30)),
            static c => ((CancellationTokenSource)c!).Cancel(), cancellation);
    }

    private async Task AwaitSend(ValueTask<SendResult> sending, Flow.Promise promise, byte[] message)
    {
        Flow flow = _outgoing;
        bool cancelled = false;
        SendResult result = SendResult.Closed;
        Loop? awaitedOn = Loop.Current;
        PoolSession? awaitedIn = PoolSession.Current;
        bool waits = !sending.IsCompleted;
        string what = $"SendAsync {promise.Number} of {this}";
        _world.Awaited.Add(what);
        try
        {
            result = await sending;
        }
        catch (OperationCanceledException)
        {
            cancelled = true;
        }
        finally
        {
            _world.Awaited.Remove(what);
        }

        if (waits && awaitedOn is { IsStopped: false } && !ReferenceEquals(Loop.Current, awaitedOn))
            _world.Fail($"{this}: SendAsync resumed off its loop");
        if (waits && awaitedIn is not null && !ReferenceEquals(PoolSession.Current, awaitedIn))
            _world.Fail($"{this}: SendAsync resumed outside of its session's order");
        if (waits && _world.Running is not null) _world.Fail($"{this}: SendAsync resumed inside {_world.Running}");
        _world.Log($"{this}: waiting send {promise.Number} ended: {(cancelled ? "cancelled" : result.ToString())}");
        promise.MayArrive = !cancelled && result == SendResult.Closed;
        flow.Resolve(promise, cancelled ? null : result);
        message.AsSpan().Fill(0xEE);
    }

    private void BroadcastSomething()
    {
        int lane = _world.Lane;
        int group = _world.Random.Next(World.GroupCount);
        int size = Math.Min(Size(), _world.Chance(900) ? 2_000 : 60_000);
        SimSession? except = _world.Chance(300) ? this : null;
        if (_world.Chance(800))
        {
            byte[] message = Flow.Message(World.Broadcast, lane, group, _world.NextNumber(lane), size);
            SendResult result = _world.Groups[group].Broadcast(message, except);
            _world.Log($"{this} broadcasts {size} bytes to group {group} ({_world.Groups[group].Count}), caller "
                + $"{lane}, number {BitConverter.ToInt32(message, 12)}: {result}");
            message.AsSpan().Fill(0xEE);
            return;
        }

        byte[] awaited = Flow.Message(World.BroadcastAwaited, lane, group, _world.NextNumber(lane), size);
        _ = AwaitBroadcast(_world.Groups[group].BroadcastAsync(awaited, except,
            _world.Chance(300) ? static s => ((SimSession)s).Number % 2 == 0 : null), awaited);
    }

    private async Task AwaitBroadcast(ValueTask<BroadcastResult> broadcasting, byte[] message)
    {
        string what = $"BroadcastAsync of {this}";
        _world.Awaited.Add(what);
        BroadcastResult result = await broadcasting;
        _world.Awaited.Remove(what);
        if (result.Queued < 0 || result.Skipped < 0) _world.Fail($"a broadcast ended as {result}");
        message.AsSpan().Fill(0xEE);
    }

    // ------------------------------------------------------------------ the rest

    private void JoinGroup(int group)
    {
        if (_incoming is null) return;
        // The receiver of our outgoing bytes accepts them.
        _outgoing.Joined(group);
        _world.Groups[group].Join(this);
    }

    private void Pause()
    {
        if (_life != Life.Connected || _hasEndedHere) return;
        PauseReceiving();
        _isPausedForSure = true;
        // The FIN is delivered after the resume, and unconsumed data is passed once more before it.
        _finishMustFollow = false;
        _world.Log($"{this} pauses");
        Loop.StartTimer(TimeSpan.FromMilliseconds(_world.Random.Next(20)), static s => ((SimSession)s!).Resume(), this);
    }

    private void AskForTheRest()
    {
        DeliverAgain();
        _offerMustFollow = true;
        // Unconsumed data is passed once more before the FIN, whether or not it is enough.
        _finishMustFollow = false;
        _world.Log($"{this} asks for what it left");
    }

    private void Resume()
    {
        _isPausedForSure = false;
        ResumeReceiving();
    }

    private void MoveTimer()
    {
        if (_life != Life.Connected || _hasEndedHere) return;
        _timer?.Cancel();
        _timer = StartTimer(TimeSpan.FromMilliseconds(_world.Random.Next(10)));
    }

    private void MoveGate()
    {
        if (_life != Life.Connected || _hasEndedHere || !_world.Chance(300)) return;
        _outgoing.GateWasMoved = true;
        BroadcastGate = (BroadcastGate)_world.Random.Next(3);
        _world.Log($"{this} gate {BroadcastGate}");
    }

    private void HandOverToAnother()
    {
        if (_life != Life.Connected || _hasEndedHere || _next is not null || !IsConnected) return;
        _next = new SimSession(_world, _client)
        {
            _outgoing = _outgoing,
            _incoming = _incoming,
            _peerHasFinished = _peerHasFinished,
            _isPausedForSure = _isPausedForSure,
            _hasFinishedHere = _hasFinishedHere,
            _foreignHasEnded = _foreignHasEnded,
        };
        _isPausedForSure = false;
        _next._isPausedForSure = false;
        _world.Log($"{this} hands over to {_next}");
        HandOver(_next);
    }

    private void EndHere(bool anyWay)
    {
        bool isFirst = IsConnected && !_hasEndedHere && _firstEnd == CloseCause.None;
        switch (anyWay ? _world.Random.Next(4) : 0)
        {
            case 0 or 1:
                _world.Log($"{this} closes");
                if (isFirst) _firstEnd = CloseCause.LocalClose;
                Close();
                _hasEndedHere = true;
                break;
            case 2:
                _world.Log($"{this} aborts");
                if (isFirst) _firstEnd = CloseCause.LocalAbort;
                Abort();
                _hasEndedHere = true;
                break;
            default:
                _world.Log($"{this} finishes sending");
                ShutdownSend();
                break;
        }

        _hasFinishedHere = true;
        if (IsConnected && _hasEndedHere) _world.Fail($"{this} says it is connected after its close");
    }

    private void EndElsewhere()
    {
        _firstEnd = CloseCause.LocalClose;
        switch (_world.Random.Next(4))
        {
            case 0 or 1:
                _world.Log($"{this} is closed elsewhere");
                Close();
                break;
            case 2:
                _world.Log($"{this} is aborted elsewhere");
                Abort();
                break;
            default:
                _world.Log($"{this} finishes sending elsewhere");
                ShutdownSend();
                break;
        }

        if (HasConnected) _foreignHasEnded = true;
    }
}
