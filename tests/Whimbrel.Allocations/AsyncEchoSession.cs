namespace Whimbrel.Allocations;

internal sealed class AsyncEchoSession : Session
{
    protected override async ValueTask OnReceivedAsync(ReadOnlyMemory<byte> data) => await SendAsync(data);
}
