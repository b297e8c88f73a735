namespace Whimbrel.Http;

/// <summary>Body of one part.</summary>
internal sealed class HttpPartStream(HttpPartReader reader, HttpPart part) : OneWayStream(isRead: true)
{
    public override ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default) =>
        reader.ReadAsync(part, buffer, cancellationToken);

    public override Task<int> ReadAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken) =>
        ReadAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();

    public override int Read(byte[] buffer, int offset, int count)
    {
        ValueTask<int> reading = ReadAsync(buffer.AsMemory(offset, count));
        if (!reading.IsCompleted && Loop.Current is not null)
            throw new InvalidOperationException("A read that blocks would block the loop: await ReadAsync.");
        return reading.AsTask().GetAwaiter().GetResult();
    }
}
