namespace Whimbrel.Http;

/// <summary>Body stream in one direction, without length and seeking. Operations of the other direction
/// throw.</summary>
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
