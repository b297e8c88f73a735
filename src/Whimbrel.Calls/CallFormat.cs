using System.Buffers;
using System.Buffers.Binary;
using Whimbrel.Diagnostics;

namespace Whimbrel;

// How frames encode the id of a call. CallClient and CallSession parse frames only through this class.

/// <summary>Kind of a frame in the call protocol.</summary>
public enum CallKind
{
    /// <summary>A request or an answer, with the id of a call.</summary>
    Numbered,

    /// <summary>A message that belongs to no call.</summary>
    Push,

    /// <summary>The frame violates the protocol. The connection is reset.</summary>
    Malformed,
}

/// <summary>
/// Format of requests and answers in frames: derive from it for an existing protocol, or use
/// <see cref="LengthPrefix"/>. Shared by any number of clients and sessions; its methods are called on any thread,
/// several at the same time.
/// </summary>
public abstract class CallFormat
{
    private const int MostMessage = 1 << 30;

    // Per calling thread. Removed while it is in use, because a Write may make another call.
    [ThreadStatic]
    private static MessageWriter? t_writer;

    /// <summary>Creates a format for a custom protocol.</summary>
    /// <param name="frames">Format of frames in the stream, in both directions.</param>
    /// <param name="idBits">Number of bits of an id in the protocol, 8 to 64. Ids count up and wrap around; 0 is never
    /// the id of a call.</param>
    protected CallFormat(FrameFormat frames, int idBits = 64)
    {
        ArgumentNullException.ThrowIfNull(frames);
        if (idBits is < 8 or > 64) Throw.OutOfRange(nameof(idBits), idBits, "8 to 64");
        Frames = frames;
        IdBits = idBits;
    }

    /// <summary>Format of frames in the stream.</summary>
    public FrameFormat Frames { get; }

    /// <summary>Number of bits of an id.</summary>
    public int IdBits { get; }

    /// <summary>
    /// Creates a format for new protocols: 4 bytes length, 8 bytes id, body. Both numbers are big-endian, the length
    /// includes id and body, and the id 0 is a push.
    /// </summary>
    /// <param name="limitBytes">Maximum length of a body, 1 byte to 1 GiB less 8. Above 1 MiB raise
    /// <see cref="ConnectionLimits.UnreadBytes"/>, too.</param>
    public static CallFormat LengthPrefix(int limitBytes = 64 * 1024)
    {
        if (limitBytes is < 1 or > MostMessage - LengthPrefixed.IdBytes)
            Throw.OutOfRange(nameof(limitBytes), limitBytes, "between 1 byte and 1 GiB less 8");
        return new LengthPrefixed(FrameFormat.LengthPrefix(4, limitBytes: limitBytes + LengthPrefixed.IdBytes));
    }

    /// <summary>Parses a received frame.</summary>
    /// <param name="frame">The frame. Valid during the call only.</param>
    /// <param name="id">The id, unless it is a push.</param>
    /// <param name="body">The part of the frame that is the request, the answer or the push.</param>
    protected internal abstract CallKind Read(in Frame frame, out ulong id, out ReadOnlySpan<byte> body);

    /// <summary>
    /// Writes a complete frame, for example with <see cref="FrameFormat.Write"/> of <see cref="Frames"/>.
    /// </summary>
    /// <param name="to">Writer for the frame.</param>
    /// <param name="id">The id; 0 for a push.</param>
    /// <param name="body">The request, the answer or the push.</param>
    /// <exception cref="ArgumentException">The body cannot be encoded in this format, or is too long. Thrown to the
    /// code that called or answered.</exception>
    protected internal abstract void Write(IBufferWriter<byte> to, ulong id, ReadOnlySpan<byte> body);

    internal virtual SendResult Send(Session session, ulong id, ReadOnlySpan<byte> body)
    {
        MessageWriter writer = t_writer ?? new MessageWriter(MostMessage);
        t_writer = null;
        try
        {
            Write(writer, id, body);
            return session.Send(Outgoing.Written(writer));
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
            return session.Send(Outgoing.Pieces(head, body));
        }

        private void WriteHead(Span<byte> to, ulong id, ReadOnlySpan<byte> body)
        {
            int most = Frames.LimitBytes - IdBytes;
            if (body.Length > most)
                throw new ArgumentException($"The body has {body.Length} bytes, and the limit of the format is {most}.",
                    nameof(body));
            BinaryPrimitives.WriteInt32BigEndian(to, IdBytes + body.Length);
            BinaryPrimitives.WriteUInt64BigEndian(to[4..], id);
        }
    }
}
