using System.Buffers.Binary;

namespace Whimbrel.Conformance;

/// <summary> A session for requests with bodies: four bytes contain the length of a body, followed by its bytes; or,
/// chunked, one byte contains the length of a chunk, and 0 ends the body. The handler is called inside the callback in
/// which a body begins. </summary>
public sealed class BodyReader(bool isChunked, Action<RecordingSession, BodyStream> handler,
    long skipLimitBytes = 256 * 1024)
{
    private int _left;
    private bool _isInside;

    /// <summary>Number of ended bodies.</summary>
    public int Ended { get; private set; }

    public static UnreadHook Hook(bool isChunked, Action<RecordingSession, BodyStream> handler,
        long skipLimitBytes = 256 * 1024) =>
        new BodyReader(isChunked, handler, skipLimitBytes).Unread;

    /// <summary>Bytes of a request.</summary>
    public static byte[] Request(ReadOnlySpan<byte> body, bool isChunked)
    {
        using MemoryStream request = new();
        if (!isChunked)
        {
            Span<byte> head = stackalloc byte[4];
            BinaryPrimitives.WriteInt32BigEndian(head, body.Length);
            request.Write(head);
            request.Write(body);
            return request.ToArray();
        }

        for (int done = 0, step = 1; done < body.Length; step = (step * 7 % 251) + 1)
        {
            int count = Math.Min(step, body.Length - done);
            request.WriteByte((byte)count);
            request.Write(body.Slice(done, count));
            done += count;
        }

        request.WriteByte(0);
        return request.ToArray();
    }

    public int Unread(RecordingSession session, ReadOnlySpan<byte> unread)
    {
        ArgumentNullException.ThrowIfNull(session);
        int taken = 0;
        while (true)
        {
            ReadOnlySpan<byte> rest = unread[taken..];
            if (_left > 0)
            {
                int count = session.CallDeliverBody(rest[..Math.Min(rest.Length, _left)]);
                taken += count;
                _left -= count;
                if (_left > 0) return taken;
                if (!isChunked) End(session);
                continue;
            }

            if (isChunked)
            {
                if (rest.IsEmpty) return taken;
                if (!_isInside) Begin(session);
                _left = rest[0];
                taken++;
                if (_left == 0) End(session);
                continue;
            }

            if (rest.Length < 4) return taken;
            Begin(session);
            _left = BinaryPrimitives.ReadInt32BigEndian(rest);
            taken += 4;
            if (_left == 0) End(session);
        }
    }

    private void Begin(RecordingSession session)
    {
        _isInside = true;
        handler(session, session.CallStartBody(skipLimitBytes));
    }

    private void End(RecordingSession session)
    {
        _isInside = false;
        Ended++;
        session.CallEndBody();
    }
}
