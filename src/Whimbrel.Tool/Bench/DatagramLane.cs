using System.Buffers.Binary;

namespace Whimbrel.Tool.Bench;

/// <summary>Datagram socket of a lane: each datagram begins with its number and comes back once, in any order.
/// </summary>
internal sealed class DatagramLane(Payload payload) : DatagramHandler, ILanePeer
{
    private readonly byte[] _datagram = new byte[payload.SizeBytes];
    private Lane? _lane;

    public string Progress => "no datagram came back";

    /// <summary>Gives the handler its lane, on its loop.</summary>
    internal void Begin(Lane lane)
    {
        _lane = lane;
        lane.Opened(this);
    }

    public bool TrySend(long number)
    {
        Write(number);
        return Send(_datagram) == SendResult.Queued;
    }

    protected override void OnReceived(ReadOnlySpan<byte> datagram, in DatagramPeer peer)
    {
        if (_lane is not { } lane) return;
        long now = Clock.Now();
        if (datagram.Length != payload.SizeBytes)
        {
            lane.Failed("wrong-echo",
                $"a datagram of {datagram.Length} bytes came back, not one of {payload.SizeBytes}");
        }
        else
        {
            long number = BinaryPrimitives.ReadInt64LittleEndian(datagram);
            Write(number);
            if (!datagram.SequenceEqual(_datagram))
                lane.Failed("wrong-echo", "a datagram came back with other bytes");
            else if (!lane.TryAnswer(number, now)) lane.Load.Figures.Repeated++;
        }

        lane.Load.SendDue(now);
    }

    protected override void OnDrained() => _lane?.Freed(Clock.Now());

    protected override void OnPeerError(in DatagramFault fault) => Fail(fault);

    protected override void OnSendFailed(in DatagramFault fault) => Fail(fault);

    private void Fail(in DatagramFault fault) =>
        _lane?.Failed(ErrorCounts.KindOf(fault.Error.Category), fault.Error.Message);

    private void Write(long number)
    {
        // A number that came from outside selects some piece, and is checked by the comparison.
        payload.Message(_lane!.Key, number & 0xFFFF).CopyTo(_datagram);
        BinaryPrimitives.WriteInt64LittleEndian(_datagram, number);
    }
}
