namespace Whimbrel;

/// <summary>
/// A session that receives whole messages: derive from it and override <see cref="OnFrame"/>. A frame inside one
/// received block is not copied. Incomplete frames stay with the connection as unconsumed bytes, so
/// <see cref="ConnectionLimits.UnreadBytes"/> must have space for the largest.
/// </summary>
/// <param name="format">Format of messages in the stream, in both directions.</param>
public abstract class FramedSession(FrameFormat format) : Session, IFrameTaker
{
    private readonly FrameReader _reader = new(format);

    /// <summary>Format of messages in the stream.</summary>
    public FrameFormat Format { get; } = format;

    /// <summary>Error in the peer's data, or None. Readable after the end.</summary>
    public FrameError FrameError => _reader.Error;

    /// <summary>Called for each received message.</summary>
    /// <param name="frame">The message. Valid during the call only.</param>
    protected abstract void OnFrame(in Frame frame);

    /// <summary>
    /// Called when the peer's data violates the format; no more messages are delivered. The default resets the
    /// connection and reports a diagnostic event of kind <see cref="DiagnosticEventKind.Protocol"/>, at most once a
    /// minute. An override may send an error message of its protocol and close. The reason of the end is then
    /// <see cref="CloseCause.ProtocolError"/>, with a <see cref="FrameException"/>.
    /// </summary>
    /// <param name="error">The violated rule.</param>
    protected virtual void OnFrameError(FrameError error)
    {
        NoteMismatch();
        Abort();
    }

    /// <summary>
    /// Queues one message with its length before it or its delimiter after it. Any thread; result and limits as in
    /// <see cref="Session.Send(ReadOnlySpan{byte})"/>.
    /// </summary>
    /// <param name="message">Message without header, length and delimiter. Copied.</param>
    /// <param name="header">Bytes before the length; exactly as long as the format requires.</param>
    /// <exception cref="ArgumentException">The peer could not parse this message
    /// (<see cref="FrameFormat.Write"/>).</exception>
    public SendResult SendFrame(ReadOnlySpan<byte> message, ReadOnlySpan<byte> header = default)
    {
        Span<byte> head = stackalloc byte[FrameFormat.MostHeader + FrameFormat.MostVarint];
        int length = Format.WriteHead(head, message, header);
        return Format.DelimiterBytes is { Length: > 0 } delimiter
            ? SendPieces(message, delimiter)
            : SendPieces(head[..length], message);
    }

    /// <summary>
    /// Splits unread data into frames. A close, a pause or a hand-over in <see cref="OnFrame"/> takes effect before the
    /// next frame: the rest stays unconsumed.
    /// </summary>
    /// <param name="unread">Unconsumed bytes of the previous call, followed by newly received bytes.</param>
    /// <returns>Number of bytes of the complete frames that were delivered.</returns>
    protected sealed override int OnData(ReadOnlySpan<byte> unread) => FrameCutter.Cut(this, _reader, unread);

    internal sealed override string ReceivingName => nameof(OnFrame);

    internal sealed override int UnfinishedBytes => _reader.Unfinished;

    void IFrameTaker.Take(in Frame frame) => OnFrame(frame);

    void IFrameTaker.Fail(FrameError error, ReadOnlySpan<byte> unread)
    {
        ReportProtocolError(FrameCutter.ExceptionOf(error, Format, unread));
        OnFrameError(error);
    }
}
