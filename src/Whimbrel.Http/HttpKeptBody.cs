namespace Whimbrel.Http;

/// <summary>Buffered body as a stream. It reads through the request handle, because the memory is reused after the
/// response.</summary>
internal sealed class HttpKeptBody(HttpRequest request) : OneWayStream(isRead: true)
{
    private int _at;

    public override int Read(Span<byte> buffer)
    {
        int count = request.CopyBody(_at, buffer);
        _at += count;
        return count;
    }

    public override int Read(byte[] buffer, int offset, int count) => Read(buffer.AsSpan(offset, count));

    public override ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default) =>
        cancellationToken.IsCancellationRequested
            ? ValueTask.FromCanceled<int>(cancellationToken)
            : new(Read(buffer.Span));

    public override Task<int> ReadAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken) =>
        ReadAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();
}
