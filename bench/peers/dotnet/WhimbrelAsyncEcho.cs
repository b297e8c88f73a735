using System.Net;
using Whimbrel;

namespace Whimbrel.Bench.Peers;

/// <summary>
/// Whimbrel with callbacks that receive and awaited sends: as long as there is room the send has completed when it returns,
/// and when there is none the session is not read until the answer is in the queue.
/// </summary>
internal sealed class WhimbrelAsyncEcho : Session
{
    private readonly byte[] _answer = GC.AllocateUninitializedArray<byte>(SocketAsyncEcho.BufferSize);

    public static async Task RunAsync(EngineKind kind, int port, Action<IPEndPoint> tell)
    {
        var engine = new Engine(new EngineOptions { Kind = kind, Loops = 1 });
        var server = new Server(new ServerOptions { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, port) }, static () => new WhimbrelAsyncEcho());
        await server.StartAsync();
        tell((IPEndPoint)server.EndPoint!);
        await Task.Delay(Timeout.Infinite);
    }

    protected override int OnUnread(ReadOnlySpan<byte> unread)
    {
        // All of it: what is left comes again with more bytes or after a pause, and the peer may be waiting for these.
        for (var taken = 0; ;)
        {
            var count = Math.Min(unread.Length - taken, _answer.Length);
            unread.Slice(taken, count).CopyTo(_answer);
            taken += count;
            // Nothing may come while the answer waits for room; most of the time there is room, and nothing to stop.
            var answer = AnswerAsync(count);
            if (!answer.IsCompleted)
            {
                PauseReceiving();
                _ = ResumeAfterAsync(answer);
                return taken;
            }

            if (taken == unread.Length)
            {
                return taken;
            }
        }
    }

    private async ValueTask AnswerAsync(int count) => await SendAsync(_answer.AsMemory(0, count));

    private async Task ResumeAfterAsync(ValueTask answer)
    {
        await answer;
        ResumeReceiving();
    }
}
