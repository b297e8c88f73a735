using System.Buffers.Binary;

namespace Whimbrel.Simulation;

// One direction of one connection: the messages its sender promised, by caller, and the bytes its receiver got. Every
// byte of every message follows from key, caller and number, so a wrong, lost, repeated or foreign byte is detected.
internal sealed class Flow(World world, int key)
{
    internal const int HeaderBytes = 20;

    private readonly Dictionary<int, List<Promise>> _sent = [];
    private readonly Dictionary<int, int> _next = [];
    private readonly Dictionary<(int Kind, int Lane), int> _lastNumber = [];
    private readonly HashSet<(int Lane, int Number)> _unordered = [];
    private readonly bool[] _joined = new bool[World.GroupCount];
    private readonly byte[] _header = new byte[HeaderBytes];
    private byte[] _leftover = [];
    private int _headerCount;
    private int _length;
    private int _position;
    private int _bodySeed;
    private bool _leftoverIsChecked;

    internal enum Fate
    {
        Promised,
        Open,
        Refused,
    }

    internal int Key { get; } = key;

    // The broadcast gate was moved: broadcasts and sends of one caller may then change their order.
    internal bool GateWasMoved { get; set; }

    internal bool IsComplete { get; private set; }

    internal int LeftoverLength => _leftover.Length;

    internal void Joined(int group) => _joined[group] = true;

    // ------------------------------------------------------------------ the sender's side

    internal static byte[] Message(int kind, int lane, int key, int number, int length)
    {
        byte[] message = new byte[length];
        message[0] = 0xC3;
        message[1] = (byte)kind;
        BinaryPrimitives.WriteUInt16LittleEndian(message.AsSpan(2), (ushort)lane);
        BinaryPrimitives.WriteInt32LittleEndian(message.AsSpan(4), length);
        BinaryPrimitives.WriteInt32LittleEndian(message.AsSpan(8), key);
        BinaryPrimitives.WriteInt32LittleEndian(message.AsSpan(12), number);
        BinaryPrimitives.WriteInt32LittleEndian(message.AsSpan(16), Check(message));
        int seed = Seed(kind, lane, key, number);
        for (int i = HeaderBytes; i < length; i++) message[i] = Body(seed, i);
        return message;
    }

    private static int Seed(int kind, int lane, int key, int number) =>
        (key * 31) + (lane * 17) + (number * 101) + kind;

    private static byte Body(int seed, int index) => (byte)((seed + (index * 7)) ^ (index >> 8));

    private static int Check(ReadOnlySpan<byte> header)
    {
        uint hash = 2166136261;
        foreach (byte b in header[..16]) hash = (hash ^ b) * 16777619;
        return (int)hash;
    }

    // Numbers of one caller increase over all its flows; the promise records the expected fate of this message.
    internal Promise Add(int lane, int number, int length, Fate fate)
    {
        Promise promise = new(number, length) { Fate = fate };
        if (!_sent.TryGetValue(lane, out List<Promise>? promises)) _sent[lane] = promises = [];
        promises.Add(promise);
        return promise;
    }

    internal void Resolve(Promise promise, SendResult? result)
    {
        // Null: cancelled before its first piece. Closed: it may have been in progress.
        if (result == SendResult.Queued)
        {
            promise.Fate = Fate.Promised;
            if (promise.WasPassed)
                world.Fail($"flow {Key}: message {promise.Number} was passed by a later one of its caller");
            if (IsComplete && !promise.WasReceived)
                world.Fail($"flow {Key}: message {promise.Number} was lost before the FIN");
            return;
        }

        promise.Fate = Fate.Refused;
        if (result is null or SendResult.Full && promise.WasReceived)
            world.Fail($"flow {Key}: message {promise.Number} was not sent, they said, and it arrived");
    }

    // ------------------------------------------------------------------ the receiver's side

    internal void Offered(ReadOnlySpan<byte> unread)
    {
        if (!unread.StartsWith(_leftover))
            world.Fail($"flow {Key}: the {_leftover.Length} bytes left the last time did not come again first");
    }

    internal void Took(ReadOnlySpan<byte> unread, int taken)
    {
        if (!_leftoverIsChecked) Consume(unread[..taken]);
        _leftover = unread[taken..].ToArray();
    }

    // The peer's FIN was delivered: everything promised must have arrived.
    internal void Finished()
    {
        if (_leftoverIsChecked) return;
        Consume(_leftover);
        _leftoverIsChecked = true;
        IsComplete = true;
        if (_headerCount > 0)
            world.Fail($"flow {Key}: the stream ended inside a message ({_position} of {_length} bytes)");
        foreach ((int lane, List<Promise> promises) in _sent)
        {
            foreach (Promise promise in promises)
            {
                if (promise is { Fate: Fate.Promised, WasReceived: false })
                    world.Fail($"flow {Key}: message {promise.Number} of caller {lane} ({promise.Length} bytes) was "
                        + $"lost before the FIN");
            }
        }
    }

    private void Consume(ReadOnlySpan<byte> data)
    {
        while (!data.IsEmpty)
        {
            if (_headerCount < HeaderBytes)
            {
                int part = Math.Min(HeaderBytes - _headerCount, data.Length);
                data[..part].CopyTo(_header.AsSpan(_headerCount));
                _headerCount += part;
                data = data[part..];
                if (_headerCount == HeaderBytes && !BeginMessage()) return;
                if (_headerCount < HeaderBytes) return;
            }

            int count = Math.Min(_length - _position, data.Length);
            for (int i = 0; i < count; i++)
            {
                if (data[i] == Body(_bodySeed, _position + i)) continue;
                world.Fail($"flow {Key}: byte {_position + i} of a message of {_length} is {data[i]:x2}, expected "
                    + $"{Body(_bodySeed, _position + i):x2} ({Describe()})");
                return;
            }

            _position += count;
            data = data[count..];
            if (_position == _length) EndMessage();
        }
    }

    private string Describe() =>
        $"kind {_header[1]}, caller {BinaryPrimitives.ReadUInt16LittleEndian(_header.AsSpan(2))}, "
        + $"key {BinaryPrimitives.ReadInt32LittleEndian(_header.AsSpan(8))}, number "
        + $"{BinaryPrimitives.ReadInt32LittleEndian(_header.AsSpan(12))}";

    private bool BeginMessage()
    {
        if (_header[0] != 0xC3 || BinaryPrimitives.ReadInt32LittleEndian(_header.AsSpan(16)) != Check(_header))
        {
            world.Fail($"flow {Key}: no message begins here: {Convert.ToHexString(_header)}");
            return false;
        }

        _length = BinaryPrimitives.ReadInt32LittleEndian(_header.AsSpan(4));
        _position = HeaderBytes;
        _bodySeed = Seed(_header[1], _header[2], BinaryPrimitives.ReadInt32LittleEndian(_header.AsSpan(8)),
            BinaryPrimitives.ReadInt32LittleEndian(_header.AsSpan(12)));
        return true;
    }

    private void EndMessage()
    {
        int kind = _header[1];
        int lane = BinaryPrimitives.ReadUInt16LittleEndian(_header.AsSpan(2));
        int key = BinaryPrimitives.ReadInt32LittleEndian(_header.AsSpan(8));
        int number = BinaryPrimitives.ReadInt32LittleEndian(_header.AsSpan(12));
        _headerCount = 0;
        switch (kind)
        {
            case World.Direct:
                if (key != Key) world.Fail($"flow {Key}: a message of flow {key}");
                Direct(lane, number);
                break;
            case World.ToEach:
                Direct(lane, number);
                break;
            case World.Broadcast:
                if (!_joined[key])
                    world.Fail($"flow {Key}: a broadcast of group {key} came to a session that never joined");
                Ordered(kind, lane, number);
                break;
            case World.BroadcastAwaited:
                if (!_unordered.Add((lane, number))) world.Fail($"flow {Key}: broadcast {number} came twice");
                break;
        }
    }

    private void Direct(int lane, int number)
    {
        Ordered(World.Direct, lane, number);
        List<Promise> promises = _sent.GetValueOrDefault(lane) ?? [];
        int index = _next.GetValueOrDefault(lane);
        for (; index < promises.Count && promises[index].Number != number; index++)
        {
            promises[index].WasPassed = true;
            if (promises[index].Fate == Fate.Promised)
                world.Fail($"flow {Key}: message {promises[index].Number} of caller {lane} was skipped; {number} came");
        }

        if (index == promises.Count)
        {
            world.Fail($"flow {Key}: message {number} of caller {lane} was never promised, or came twice");
            return;
        }

        if (promises[index].Fate == Fate.Refused && !promises[index].MayArrive)
            world.Fail($"flow {Key}: message {number} of caller {lane} was refused and arrived");
        promises[index].WasReceived = true;
        _next[lane] = index + 1;
    }

    private void Ordered(int kind, int lane, int number)
    {
        (int, int) place = (GateWasMoved ? kind : 0, lane);
        if (_lastNumber.TryGetValue(place, out int last) && number <= last)
            world.Fail($"flow {Key}: message {number} of caller {lane} (kind {kind}) came after {last}");
        _lastNumber[place] = number;
    }

    internal sealed class Promise(int number, int length)
    {
        internal int Number { get; } = number;

        internal int Length { get; } = length;

        internal Fate Fate { get; set; }

        internal bool WasReceived { get; set; }

        internal bool WasPassed { get; set; }

        // A SendAsync that ended with Closed, or was cancelled after its first piece: accepted bytes may still arrive.
        internal bool MayArrive { get; set; }
    }
}
