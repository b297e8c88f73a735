namespace Whimbrel;

/// <summary>
/// Sending the content of a MessageWriter (contract 21), and waiting until sent data has left (contract 23).
/// </summary>
public abstract partial class Session
{
    /// <summary>
    /// Completes when the kernel has accepted everything that its caller has sent before: with true; or with false if
    /// the connection has ended first, or there is none. Completes at once if nothing is pending. True does not mean
    /// that the peer has read the data; only the peer can confirm that. Allocates nothing, and does not make data leave
    /// earlier. Broadcasts held by a <see cref="Whimbrel.BroadcastGate"/> are not included. Any thread.
    /// </summary>
    public ValueTask<bool> SentAsync() => _connection is { } connection ? connection.SentAsync(_generation) : new(false);

    /// <summary>
    /// Queues the content of a writer as one message; the writer is then empty. With any result other than
    /// <see cref="SendResult.Queued"/> the message stays in the writer: send it later, send it elsewhere, or clear it.
    /// Up to 32 KiB are copied into the queue; of larger messages the queue takes the memory itself. Any thread.
    /// </summary>
    /// <param name="message">Writer with the message.</param>
    /// <exception cref="InvalidOperationException">Memory of <see cref="MessageWriter.GetMemory"/> is pinned, for
    /// example by a pending read; or the writer is being sent.</exception>
    public SendResult Send(MessageWriter message)
    {
        ArgumentNullException.ThrowIfNull(message);
        message.BeginSend();
        bool isCopied = message.IsInOneBlock;
        SendResult result = SendResult.Closed;
        try
        {
            if (_connection is not { } connection) return SendResult.Closed;
            return result = isCopied ? connection.Send(message.WrittenInOneBlock, _generation) : connection.SendWritten(message.Blocks, message.Length, _generation);
        }
        finally
        {
            message.EndSend(result, tookBlocks: !isCopied);
        }
    }
}
