using System.Buffers.Binary;
using System.Globalization;

namespace Whimbrel.Tool;

/// <summary>
/// One client of <c>serve groups</c>, for benchmarks. Its messages have 32 bytes: the first is the command, the next
/// seven (little-endian) the group, and the rest is the client's. Runs on the session's loop.
/// </summary>
internal sealed class GroupsSession(Tally.Cell messages) : Session
{
    private const int MessageSize = 32;
    private const int Join = 1;
    private const int Broadcast = 2;
    private const int Answer = 3;

    private readonly Dictionary<ulong, SessionGroup> _groups = [];

    protected override int OnData(ReadOnlySpan<byte> unread)
    {
        int taken = 0;
        for (; unread.Length - taken >= MessageSize; taken += MessageSize) Take(unread.Slice(taken, MessageSize));
        return taken;
    }

    private void Take(ReadOnlySpan<byte> message)
    {
        ulong number = BinaryPrimitives.ReadUInt64LittleEndian(message) >> 8;
        messages.Add(1);
        switch (message[0])
        {
            case Join:
                // Looked up by name once; later by reference.
                SessionGroup group = _groups[number] = Server!.Groups[number.ToString(CultureInfo.InvariantCulture)];
                group.Join(this);
                break;
            case Broadcast:
                if (_groups.TryGetValue(number, out SessionGroup? joined)) joined.Broadcast(message);
                break;
            case Answer:
                Send(message);
                break;
            default:
                Close();
                break;
        }
    }
}
