namespace Whimbrel.Http;

/// <summary>Response body as a stream: a handle, like the response.</summary>
internal sealed class HttpResponseStream(HttpResponse response) : OneWayStream(isRead: false)
{
    public override ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default) =>
        response.WriteAsync(buffer, cancellationToken);

    public override Task WriteAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken) =>
        response.WriteAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();

    public override Task FlushAsync(CancellationToken cancellationToken) =>
        response.FlushAsync(cancellationToken).AsTask();

    public override void Write(byte[] buffer, int offset, int count)
    {
        ValueTask writing = response.WriteAsync(buffer.AsMemory(offset, count));
        if (!writing.IsCompleted && Loop.Current is not null)
            throw new InvalidOperationException("A write that blocks would block the loop: await WriteAsync.");
        writing.AsTask().GetAwaiter().GetResult();
    }

    public override void Flush()
    {
        if (Loop.Current is not null) return; // data is sent at the next awaited flush, or at the end
        FlushAsync(CancellationToken.None).GetAwaiter().GetResult();
    }
}
