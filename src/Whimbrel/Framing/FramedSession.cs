namespace Whimbrel;

/// <summary>
/// A session that gets whole messages: derive from it and override <see cref="OnFrame"/>. A frame that lies in one received block is not
/// copied; what is no whole frame stays with the connection as unread bytes, so <see cref="ConnectionOptions.UnreadLimitBytes"/> must have
/// room for the largest.
/// </summary>
/// <param name="format">How messages lie in the stream, both ways.</param>
public abstract class FramedSession(FrameFormat format) : Session, IFrameTaker
{
    private readonly FrameReader _reader = new(format);

    /// <summary>How messages lie in the stream.</summary>
    public FrameFormat Format { get; } = format;

    /// <summary>What was wrong with the peer's bytes, or nothing. Stays readable after the end.</summary>
    public FrameError FrameError => _reader.Error;

    /// <summary>A message arrived.</summary>
    /// <param name="frame">Valid during the call only.</param>
    protected abstract void OnFrame(in Frame frame);

    /// <summary>
    /// The peer's bytes are no frames of this format, and no more messages come. The default resets the connection and gives a notice of kind <see cref="DiagnosticEventKind.Protocol"/>, at most once a minute; an override may send its
    /// protocol's word for it and close. The reason of the end is then <see cref="CloseCause.ProtocolError"/>, with a
    /// <see cref="FrameException"/>.
    /// </summary>
    /// <param name="error">What is wrong.</param>
    protected virtual void OnFrameError(FrameError error)
    {
        NoteMismatch();
        Abort();
    }

    /// <summary>Sends one message whole: its length before it or its delimiter behind it. Any thread; the result and the limits are those of <see cref="Session.Send(ReadOnlySpan{byte})"/>.</summary>
    /// <param name="message">The message, without header, length and delimiter. Copied.</param>
    /// <param name="header">What stands before the length; exactly as long as the format says.</param>
    /// <exception cref="ArgumentException">The peer would not find this message (<see cref="FrameFormat.Write"/>).</exception>
    public SendResult SendFrame(ReadOnlySpan<byte> message, ReadOnlySpan<byte> header = default)
    {
        Span<byte> head = stackalloc byte[FrameFormat.MostHeader + FrameFormat.MostVarint];
        int length = Format.WriteHead(head, message, header);
        return Format.DelimiterBytes is { Length: > 0 } delimiter ? Send(message, delimiter) : Send(head[..length], message);
    }

    /// <summary>Cuts what is unread into frames. What <see cref="OnFrame"/> does is heeded between two: after a close, a pause or a hand-over the rest stays unread.</summary>
    /// <param name="unread">What was left the last time and what has arrived since.</param>
    /// <returns>The bytes of the whole frames that were given.</returns>
    protected sealed override int OnData(ReadOnlySpan<byte> unread) => FrameCutter.Cut(this, _reader, unread);

    internal sealed override string ReceivingName => nameof(OnFrame);

    void IFrameTaker.Take(in Frame frame) => OnFrame(frame);

    void IFrameTaker.Fail(FrameError error, ReadOnlySpan<byte> unread)
    {
        ReportProtocolError(FrameCutter.ExceptionOf(error, Format, unread));
        OnFrameError(error);
    }
}
