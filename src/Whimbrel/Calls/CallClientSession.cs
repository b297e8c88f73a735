namespace Whimbrel;

/// <summary>One connection of a <see cref="CallClient"/>: tells it of its frames, its beginning and its end.</summary>
internal sealed class CallClientSession(CallClient owner) : Session, IFrameTaker
{
    private readonly FrameReader _reader = new(owner.Format.Frames);

    /// <summary>The last id that was given before this connection. Guarded by the client's gate.</summary>
    internal ulong LastIdBefore { get; set; }

    protected override void OnConnected() => owner.Opened(this);

    protected override int OnUnread(ReadOnlySpan<byte> unread) => FrameCutter.Cut(this, _reader, unread);

    void IFrameTaker.Take(in Frame frame)
    {
        switch (owner.Format.Read(frame, out ulong id, out ReadOnlySpan<byte> body))
        {
            case CallKind.Numbered:
                if (!owner.Answered(this, id, body)) Abort();
                break;
            case CallKind.Push:
                owner.Pushed(body);
                break;
            default:
                Abort();
                break;
        }
    }

    void IFrameTaker.Fail(FrameError error) => Abort();

    protected override void OnDisconnecting(CloseReason reason) => owner.Lost(this);
}
