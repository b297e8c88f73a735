using System.Buffers;

namespace Whimbrel.Clusters;

/// <summary>Creates a node's envelopes in buffers of the shared pool. Any thread.</summary>
internal sealed class EnvelopeForm(ulong instance, byte[] node, bool isSigned)
{
    /// <summary>Returns the length of an envelope with a group name and payload of these lengths.</summary>
    internal int Length(int group, int payload) => Envelope.Length(node.Length, group, payload, isSigned);

    /// <summary>Creates an envelope of a group that is no broadcast.</summary>
    internal Outgoing Control(EnvelopeKind kind, GroupState group, string subject, ReadOnlySpan<byte> payload) =>
        Make(kind, group.Epoch, group.NameBytes, group, subject, payload);

    /// <summary>Creates an envelope without a local group.</summary>
    internal Outgoing Control(EnvelopeKind kind, ReadOnlySpan<byte> group, string subject,
        ReadOnlySpan<byte> payload) => Make(kind, 0, group, null, subject, payload);

    /// <summary>Creates an envelope with one broadcast.</summary>
    internal Outgoing Broadcast(GroupState group, ReadOnlySpan<byte> message)
    {
        Outgoing made = Make(EnvelopeKind.Broadcast, group.Epoch, group.NameBytes, group, group.Subject, [],
            Envelope.MessageLength(message.Length));
        Envelope.WriteMessage(made.Buffer.AsSpan(EndOf(made) - Envelope.MessageLength(message.Length)), message);
        made.Count = 1;
        return made;
    }

    /// <summary>Appends a broadcast to an envelope.</summary>
    internal void Join(Outgoing open, ReadOnlySpan<byte> message)
    {
        int length = open.Length + Envelope.MessageLength(message.Length), end = EndOf(open);
        if (length > open.Buffer.Length)
        {
            byte[] larger = ArrayPool<byte>.Shared.Rent(Math.Max(length, 2 * open.Buffer.Length));
            open.Buffer.AsSpan(0, end).CopyTo(larger);
            ArrayPool<byte>.Shared.Return(open.Buffer);
            open.Buffer = larger;
        }

        Envelope.WriteMessage(open.Buffer.AsSpan(end), message);
        open.Length = length;
        open.Count++;
    }

    /// <summary>Creates the sealed envelope of an <see cref="EnvelopeKind.Entry"/>.</summary>
    internal byte[] Entry(ReadOnlySpan<byte> group, ulong sequence, ReadOnlySpan<byte> payload, ReadOnlySpan<byte> key)
    {
        byte[] envelope = new byte[Length(group.Length, payload.Length)];
        Envelope.Write(envelope, EnvelopeKind.Entry, instance, 0, node, group, payload, isSigned);
        Envelope.Seal(envelope, sequence, key);
        return envelope;
    }

    private Outgoing Make(EnvelopeKind kind, uint epoch, ReadOnlySpan<byte> name, GroupState? group, string subject,
        ReadOnlySpan<byte> payload, int more = 0)
    {
        int length = Length(name.Length, payload.Length + more);
        byte[] buffer = ArrayPool<byte>.Shared.Rent(length);
        Envelope.Write(buffer.AsSpan(0, length), kind, instance, epoch, node, name, payload, isSigned);
        return new Outgoing(subject, group, buffer, length)
        {
            IsOrdered = kind is EnvelopeKind.Broadcast or EnvelopeKind.Mark,
            IsAnnouncement = kind == EnvelopeKind.Announcement,
        };
    }

    private int EndOf(Outgoing envelope) => envelope.Length - (isSigned ? Envelope.MacBytes : 0);
}
