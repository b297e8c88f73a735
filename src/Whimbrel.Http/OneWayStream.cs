namespace Whimbrel.Http;

/// <summary>A body as a stream that is read or written: without a length, or a place that can be chosen. What the other way does throws.</summary>
internal abstract class OneWayStream(bool isRead) : Stream
{
    public override bool CanRead => isRead;

    public override bool CanWrite => !isRead;

    public override bool CanSeek => false;

    public override long Length => throw new NotSupportedException();

    public override long Position
    {
        get => throw new NotSupportedException();
        set => throw new NotSupportedException();
    }

    public override int Read(byte[] buffer, int offset, int count) => throw new NotSupportedException();

    public override void Write(byte[] buffer, int offset, int count) => throw new NotSupportedException();

    public override void Flush()
    {
    }

    public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();

    public override void SetLength(long value) => throw new NotSupportedException();
}
