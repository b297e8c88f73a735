namespace Whimbrel;

/// <summary>
/// One connection of a <see cref="CallClient"/>: passes its frames, its begin and its end to the client.
/// </summary>
internal sealed class CallClientSession(CallClient owner) : Session, IFrameTaker
{
    private readonly FrameReader _reader = new(owner.Format.Frames);

    /// <summary>Last id that was used before this connection. Guarded by the client's lock.</summary>
    internal ulong LastIdBefore { get; set; }

    protected override void OnConnected() => owner.Opened(this);

    protected override int OnData(ReadOnlySpan<byte> unread) => FrameCutter.Cut(this, _reader, unread);

    void IFrameTaker.Take(in Frame frame)
    {
        switch (owner.Format.Read(frame, out ulong id, out ReadOnlySpan<byte> body))
        {
            case CallKind.Numbered:
                if (!owner.Answered(this, id, body))
                    Reject(new InvalidDataException($"an answer came to a call with the id {id}, which was not sent"));
                break;
            case CallKind.Push:
                owner.Pushed(body);
                break;
            default:
                Reject(new InvalidDataException("a frame is neither an answer nor a push of this format"));
                break;
        }
    }

    void IFrameTaker.Fail(FrameError error, ReadOnlySpan<byte> unread) =>
        Reject(FrameCutter.ExceptionOf(error, owner.Format.Frames, unread));

    private void Reject(Exception error)
    {
        ReportProtocolError(error);
        NoteMismatch();
        Abort();
    }

    protected override void OnDisconnecting(CloseReason reason) => owner.Lost(this, reason);

    internal override int UnfinishedBytes => _reader.Unfinished;

    internal override string DisplayName => owner.GetType().Name;
}
