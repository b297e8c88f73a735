using System.Buffers;
using System.Buffers.Binary;
using Whimbrel.Diagnostics;

namespace Whimbrel;

// How the id of a call lies in a frame. CallClient and CallSession ask it for each frame; what it says of a frame is all they know of it.

/// <summary>What a frame is to calls.</summary>
public enum CallKind
{
    /// <summary>A request or an answer: it has the id of a call.</summary>
    Numbered,

    /// <summary>A message that belongs to no call.</summary>
    Push,

    /// <summary>None of these: the peer does not speak this protocol. The connection is reset.</summary>
    Malformed,
}

/// <summary>
/// How requests and answers lie in frames: derive from it for a protocol that exists, or take <see cref="LengthPrefix"/>. Shared by any number of clients and
/// sessions; its methods come on any thread, several at once.
/// </summary>
public abstract class CallFormat
{
    private const int MostMessage = 1 << 30;

    // Of each thread that calls; taken out while it is in use, as what is written may call again.
    [ThreadStatic]
    private static MessageWriter? t_writer;

    /// <summary>For a protocol of one's own.</summary>
    /// <param name="frames">How frames lie in the stream, both ways.</param>
    /// <param name="idBits">Bits that the protocol has for an id, 8 to 64. Ids count up and begin anew; 0 is never the id of a call.</param>
    protected CallFormat(FrameFormat frames, int idBits = 64)
    {
        ArgumentNullException.ThrowIfNull(frames);
        if (idBits is < 8 or > 64) Throw.OutOfRange(nameof(idBits), idBits, "8 to 64");
        Frames = frames;
        IdBits = idBits;
    }

    /// <summary>How frames lie in the stream.</summary>
    public FrameFormat Frames { get; }

    /// <summary>Bits of an id.</summary>
    public int IdBits { get; }

    /// <summary>
    /// A layout for who has none: 4 bytes length, 8 bytes id, body. Both numbers have their most significant byte first, the length counts id and body, and the
    /// id 0 is a push.
    /// </summary>
    /// <param name="limitBytes">Most bytes of a body, 1 byte to 1 GiB less 8. Above 1 MiB with <see cref="ConnectionOptions.UnreadLimitBytes"/>.</param>
    public static CallFormat LengthPrefix(int limitBytes = 64 * 1024)
    {
        if (limitBytes is < 1 or > MostMessage - LengthPrefixed.IdBytes) Throw.OutOfRange(nameof(limitBytes), limitBytes, "between 1 byte and 1 GiB less 8");
        return new LengthPrefixed(FrameFormat.LengthPrefix(4, limitBytes: limitBytes + LengthPrefixed.IdBytes));
    }

    /// <summary>Reads a received frame.</summary>
    /// <param name="frame">The frame. Valid during the call only.</param>
    /// <param name="id">The id, unless it is a push.</param>
    /// <param name="body">The part of the frame that is the request, the answer or the push.</param>
    protected internal abstract CallKind Read(in Frame frame, out ulong id, out ReadOnlySpan<byte> body);

    /// <summary>Writes a frame, whole: <see cref="FrameFormat.Write"/> of <see cref="Frames"/> helps.</summary>
    /// <param name="to">Where to.</param>
    /// <param name="id">The id; 0 for a push.</param>
    /// <param name="body">The request, the answer or the push.</param>
    /// <exception cref="ArgumentException">It cannot be said in this format, or is too long. (To who called or answered.)</exception>
    protected internal abstract void Write(IBufferWriter<byte> to, ulong id, ReadOnlySpan<byte> body);

    internal virtual SendResult Send(Session session, ulong id, ReadOnlySpan<byte> body)
    {
        MessageWriter writer = t_writer ?? new MessageWriter(MostMessage);
        t_writer = null;
        try
        {
            Write(writer, id, body);
            return session.Send(writer);
        }
        finally
        {
            writer.Clear();
            t_writer = writer;
        }
    }

    private sealed class LengthPrefixed(FrameFormat frames) : CallFormat(frames)
    {
        internal const int IdBytes = 8;
        private const int HeadBytes = 4 + IdBytes;

        protected internal override CallKind Read(in Frame frame, out ulong id, out ReadOnlySpan<byte> body)
        {
            if (!BinaryPrimitives.TryReadUInt64BigEndian(frame.Message, out id))
            {
                body = default;
                return CallKind.Malformed;
            }

            body = frame.Message[IdBytes..];
            return id == 0 ? CallKind.Push : CallKind.Numbered;
        }

        protected internal override void Write(IBufferWriter<byte> to, ulong id, ReadOnlySpan<byte> body)
        {
            WriteHead(to.GetSpan(HeadBytes), id, body);
            to.Advance(HeadBytes);
            to.Write(body);
        }

        internal override SendResult Send(Session session, ulong id, ReadOnlySpan<byte> body)
        {
            Span<byte> head = stackalloc byte[HeadBytes];
            WriteHead(head, id, body);
            return session.Send(head, body);
        }

        private void WriteHead(Span<byte> to, ulong id, ReadOnlySpan<byte> body)
        {
            int most = Frames.LimitBytes - IdBytes;
            if (body.Length > most) throw new ArgumentException($"The body has {body.Length} bytes, and the limit of the format is {most}.", nameof(body));
            BinaryPrimitives.WriteInt32BigEndian(to, IdBytes + body.Length);
            BinaryPrimitives.WriteUInt64BigEndian(to[4..], id);
        }
    }
}
