using System.Buffers;
using System.Buffers.Binary;
using System.Collections.Concurrent;

namespace Whimbrel.Bench.Peers;

/// <summary> Groups as they are commonly implemented on pipes: a dictionary of lists under a lock, and a broadcast that
/// writes to each member's pipe and flushes it. The messages are those of bench/README.md, "Groups". </summary>
internal sealed class GroupRegister
{
    internal const int MessageSize = 32;
    private const int Join = 1;
    private const int Broadcast = 2;
    private const int Answer = 3;

    private readonly ConcurrentDictionary<ulong, List<GroupMember>> _groups = new();

    public void Take(GroupMember member, ReadOnlySequence<byte> bytes)
    {
        Span<byte> message = stackalloc byte[MessageSize];
        bytes.CopyTo(message);
        var number = BinaryPrimitives.ReadUInt64LittleEndian(message) >> 8;
        switch (message[0])
        {
            case Join:
                var joined = _groups.GetOrAdd(number, static _ => []);
                lock (joined)
                {
                    joined.Add(member);
                }

                member.Groups.Add(joined);
                break;
            case Broadcast:
                var group = _groups[number];
                lock (group)
                {
                    foreach (var other in group)
                    {
                        other.Send(message);
                    }
                }

                break;
            case Answer:
                member.Send(message);
                break;
        }
    }

    public static void Leave(GroupMember member)
    {
        foreach (var group in member.Groups)
        {
            lock (group)
            {
                group.Remove(member);
            }
        }
    }
}
