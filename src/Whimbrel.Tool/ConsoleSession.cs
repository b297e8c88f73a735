using System.IO.Pipelines;

namespace Whimbrel.Tool;

/// <summary>Client session. Received data goes through a pipe to stdout, so that a slow terminal stops the reading and
/// not the loop.</summary>
internal sealed class ConsoleSession : Session
{
    private readonly TaskCompletionSource<CloseReason> _ended = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly Pipe _output = new(new PipeOptions(pauseWriterThreshold: 256 * 1024,
        resumeWriterThreshold: 64 * 1024, useSynchronizationContext: false));
    private readonly Task _printing;

    internal ConsoleSession() => _printing = Task.Run(PrintAsync);

    /// <summary>Completes when the connection has ended and all data was printed.</summary>
    internal Task<CloseReason> Ended => _ended.Task;

    protected override void OnReceived(ReadOnlySpan<byte> data)
    {
        data.CopyTo(_output.Writer.GetSpan(data.Length));
        _output.Writer.Advance(data.Length);
        ValueTask<FlushResult> flush = _output.Writer.FlushAsync();
        if (flush.IsCompleted) return;
        PauseReceiving();
        _ = ResumeAfterAsync(flush);
    }

    protected override void OnDisconnected(CloseReason reason) => _ = FinishAsync(reason);

    protected override void OnConnectFailed(CloseReason reason) => _ = FinishAsync(reason);

    private async Task ResumeAfterAsync(ValueTask<FlushResult> flush)
    {
        await flush;
        ResumeReceiving();
    }

    private async Task FinishAsync(CloseReason reason)
    {
        await _output.Writer.CompleteAsync();
        await _printing;
        _ended.TrySetResult(reason);
    }

    private async Task PrintAsync()
    {
        await using Stream stdout = Console.OpenStandardOutput();
        try
        {
            await _output.Reader.CopyToAsync(stdout);
        }
        catch (IOException)
        {
            // The reader of stdout has exited, as head does.
            Close();
        }
        finally
        {
            await _output.Reader.CompleteAsync();
        }
    }
}
