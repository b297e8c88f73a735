using Whimbrel.Testing;

namespace Whimbrel.Simulation.Kernel;

// A peer without an engine: the other end of a simulated socket, driven by the seed.
internal sealed class KernelPeer
{
    private const int ReadBytes = 4096;

    private readonly KernelWorld _world;
    private readonly MemorySocket _socket;
    private readonly EndPlan _plan;
    private readonly ByteTrack _outgoing;
    private readonly ByteTrack _incoming;
    private int _left;
    private int _steps;
    private bool _hasFinished;
    private bool _sawEnd;

    internal KernelPeer(KernelWorld world, MemorySocket socket, KernelLink link, bool isClient)
    {
        _world = world;
        _socket = socket;
        _plan = isClient ? link.Client : link.Server;
        (_outgoing, _incoming) = isClient ? (link.ToServer, link.ToClient) : (link.ToClient, link.ToServer);
        _left = _plan.Style == EndStyle.Echo ? 0 : _plan.ToSend;
    }

    internal bool IsOver { get; private set; }

    private bool MayWrite => _left > 0 && !_hasFinished && _socket.IsWritable;

    private bool MayRead =>
        !_sawEnd && _socket.IsReadable && (!_plan.IsSlow || _world.Settles || _socket.IsReset || _steps > 40);

    private bool MayEnd => _left == 0 && _plan.Style switch
    {
        EndStyle.Finish => !_hasFinished,
        EndStyle.Close => _incoming.Received >= _plan.Expected || _sawEnd,
        _ => false,
    };

    internal bool CanAct =>
        !IsOver && (MayWrite || MayRead || MayEnd || _plan.AbortAfter >= 0 || (_sawEnd && _left == 0));

    internal void Act()
    {
        _steps++;
        if (_plan.AbortAfter >= 0 && _steps > _plan.AbortAfter)
        {
            Leave(reset: true);
            return;
        }

        bool reads = MayRead && (!MayWrite || _world.Dice.Chance(500));
        if (reads) Read();
        else if (MayWrite) Write();
        else if (MayEnd) End();
        if (!IsOver && _sawEnd && _left == 0) Leave(reset: false);
    }

    private void Write()
    {
        int length = Math.Min(_left, _world.Dice.Next(1, _plan.PieceBytes + 1));
        int sent = _socket.Write(_outgoing.NextToSend(length));
        _world.Trace.Add("peer-writes", _socket.Id, sent);
        if (sent < 0)
        {
            Leave(reset: false);
            return;
        }

        _outgoing.WasSent(sent);
        _left -= sent;
    }

    private void Read()
    {
        Span<byte> buffer = stackalloc byte[ReadBytes];
        int most = _plan.IsSlow ? _world.Dice.Next(1, 100) : _world.Settles ? ReadBytes
            : _world.Dice.Next(1, ReadBytes + 1);
        int count = _socket.Read(buffer[..most]);
        _world.Trace.Add("peer-reads", _socket.Id, count);
        if (count > 0)
        {
            _incoming.Take(buffer[..count]);
            if (_plan.Style == EndStyle.Echo) _left += count;
            return;
        }

        if (_socket.IsReset)
        {
            Leave(reset: false);
            return;
        }

        _sawEnd = true;
        _incoming.End();
    }

    private void End()
    {
        if (_plan.Style == EndStyle.Close)
        {
            Leave(reset: false);
            return;
        }

        _world.Trace.Add("peer-finishes", _socket.Id, 0);
        _hasFinished = true;
        _socket.ShutdownSend();
    }

    private void Leave(bool reset)
    {
        _world.Trace.Add("peer-leaves", _socket.Id, reset ? 1 : 0);
        IsOver = true;
        _socket.Close(reset);
    }

    // The scenario is over, and its result is no longer checked.
    internal void GoAway()
    {
        if (!IsOver) Leave(reset: true);
    }

    public override string ToString() => $"peer {_socket.Id} ({_plan.Style}, {_left} to send, {_incoming.Received} of "
        + $"{_incoming.Sent} received{(_sawEnd ? ", saw the end" : "")}{(_hasFinished ? ", has finished" : "")})";
}
