namespace Whimbrel.Http;

/// <summary>A body as a stream that goes one way: without a length or a place that can be chosen.</summary>
internal abstract class OneWayStream : Stream
{
    public override bool CanSeek => false;

    public override long Length => throw new NotSupportedException();

    public override long Position
    {
        get => throw new NotSupportedException();
        set => throw new NotSupportedException();
    }

    public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();

    public override void SetLength(long value) => throw new NotSupportedException();
}

/// <summary>One that is read.</summary>
internal abstract class ReadOnlyStream : OneWayStream
{
    public override bool CanRead => true;

    public override bool CanWrite => false;

    public override void Flush()
    {
    }

    public override void Write(byte[] buffer, int offset, int count) => throw new NotSupportedException();
}

/// <summary>One that is written.</summary>
internal abstract class WriteOnlyStream : OneWayStream
{
    public override bool CanRead => false;

    public override bool CanWrite => true;

    public override int Read(byte[] buffer, int offset, int count) => throw new NotSupportedException();
}
