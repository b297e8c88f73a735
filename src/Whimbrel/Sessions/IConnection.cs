using System.Net;

namespace Whimbrel;

/// <summary>
/// Interface of a <see cref="Session"/>, for code that uses a connection and is tested without one. All members may be
/// used from any thread.
/// </summary>
public interface IConnection
{
    /// <summary>Number of the connection, unique in the process and never reused. 0 before it has one.</summary>
    long Id { get; }

    /// <summary>Local address, or null before there is one. Readable after the end.</summary>
    EndPoint? LocalEndPoint { get; }

    /// <summary>Address of the peer; null for a Unix peer without a name. Readable after the end.</summary>
    EndPoint? RemoteEndPoint { get; }

    /// <summary>Object that the application keeps with the connection. The library does not use it.</summary>
    object? Tag { get; set; }

    /// <summary>Number of bytes queued by sends and not yet passed to the kernel.</summary>
    long BytesPending { get; }

    /// <summary>Queues a copy of the data. See <see cref="SendResult"/>.</summary>
    /// <param name="data">Bytes to send.</param>
    SendResult Send(ReadOnlyMemory<byte> data);

    /// <summary>Queues the text as UTF-8.</summary>
    /// <param name="text">Text to send.</param>
    SendResult Send(string text);

    /// <summary>
    /// Waits for queue space, then queues the data. The memory may be reused when the task completes.
    /// </summary>
    /// <param name="data">Bytes to send.</param>
    /// <param name="cancellationToken">Cancels the wait. After the first part of a message above the send limit was
    /// queued, it aborts the connection.</param>
    ValueTask<SendResult> SendAsync(ReadOnlyMemory<byte> data, CancellationToken cancellationToken = default);

    /// <summary>Closes gracefully: no more data is delivered, queued data is sent, then FIN.</summary>
    void Close();

    /// <summary>Ends the connection at once: discards queued data and resets.</summary>
    void Abort();

    /// <summary>Stops deliveries until <see cref="ResumeReceiving"/>.</summary>
    void PauseReceiving();

    /// <summary>Starts deliveries again.</summary>
    void ResumeReceiving();
}
