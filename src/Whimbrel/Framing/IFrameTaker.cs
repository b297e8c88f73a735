namespace Whimbrel;

/// <summary>A session that is made of frames: what <see cref="FrameCutter"/> gives them to.</summary>
internal interface IFrameTaker
{
    void Take(in Frame frame);

    void Fail(FrameError error, ReadOnlySpan<byte> unread);
}
