using System.Net;
using Whimbrel;

namespace Whimbrel.Bench.Peers;

/// <summary> Whimbrel with receive callbacks and awaited sends: a send completes synchronously while the send queue has
/// space; otherwise the session is not read until the response is queued. </summary>
internal sealed class WhimbrelAsyncEcho : Session
{
    private readonly byte[] _answer = GC.AllocateUninitializedArray<byte>(SocketAsyncEcho.BufferSize);

    public static async Task RunAsync(EngineKind kind, int port, Action<IPEndPoint> tell)
    {
        var engine = new Engine(new EngineOptions { Kind = kind, Loops = 1 });
        var server =
            new Server(new ServerOptions { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, port) },
                static () => new WhimbrelAsyncEcho());
        await server.StartAsync();
        tell((IPEndPoint)server.EndPoint!);
        await Task.Delay(Timeout.Infinite);
    }

    protected override int OnData(ReadOnlySpan<byte> unread)
    {
        // Processes everything: unconsumed bytes are only delivered again with more bytes or after a pause, and the
        // peer may be waiting for the responses.
        for (var taken = 0; ;)
        {
            var count = Math.Min(unread.Length - taken, _answer.Length);
            unread.Slice(taken, count).CopyTo(_answer);
            taken += count;
            // No data may be delivered while the response waits for space. Mostly there is space, and nothing to pause.
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
