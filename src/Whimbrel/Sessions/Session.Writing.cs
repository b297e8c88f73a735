namespace Whimbrel;

/// <summary>Sending what serializers wrote (contract 21), and learning that what was sent has left (contract 23).</summary>
public abstract partial class Session
{
    /// <summary>
    /// Completes when all that its caller has sent before has left: true when the system has taken it, false when the connection has ended first,
    /// or there is none. At once when nothing is pending. Where the message is, nobody knows then: that it was read only the peer can say. Nothing is
    /// allocated for it, and nothing leaves earlier because of it. Not counted are broadcasts that a gate holds back. Any thread.
    /// </summary>
    public ValueTask<bool> SentAsync() => _connection is { } connection ? connection.SentAsync(_generation) : new(false);

    /// <summary>
    /// Queues what was written, as one message; then the writer is empty. With any other result than <see cref="SendResult.Queued"/> the message stays in
    /// the writer: to be sent later, elsewhere, or cleared. 32 KiB are copied into the queue; of more it takes the memory itself. Any thread.
    /// </summary>
    /// <param name="message">What to send.</param>
    /// <exception cref="InvalidOperationException">Somebody has memory of <see cref="MessageWriter.GetMemory"/> pinned, as a read that is under way does; or it is being sent.</exception>
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
