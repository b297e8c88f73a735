namespace Whimbrel;

/// <summary>A session that receives frames from <see cref="FrameCutter"/>.</summary>
internal interface IFrameTaker
{
    void Take(in Frame frame);

    void Fail(FrameError error, ReadOnlySpan<byte> unread);
}
