using System.Buffers.Binary;

namespace Whimbrel.Conformance;

/// <summary>
/// A protocol of requests with bodies, as a session would have it: four bytes say how long a body is and its bytes follow; or, in
/// chunks, one byte says how long a chunk is, and 0 ends the body. The handler is called inside the callback that began a body.
/// </summary>
public sealed class BodyReader(bool isChunked, Action<RecordingSession, BodyStream> handler, long skipLimitBytes = 256 * 1024)
{
    private int _left;
    private bool _isInside;

    /// <summary>Bodies that have ended.</summary>
    public int Ended { get; private set; }

    public static UnreadHook Hook(bool isChunked, Action<RecordingSession, BodyStream> handler, long skipLimitBytes = 256 * 1024) =>
        new BodyReader(isChunked, handler, skipLimitBytes).Unread;

    /// <summary>The request as bytes.</summary>
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
                int count = session.CallOfferBody(rest[..Math.Min(rest.Length, _left)]);
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
