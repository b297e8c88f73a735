using System.Net;

namespace Whimbrel;

/// <summary>
/// The outward face of a <see cref="Session"/>, for code that talks to a connection and wants to be tested without one.
/// All members may be used from any thread.
/// </summary>
public interface IConnection
{
    /// <summary>Number of the connection, unique in the process, never reused. 0 before it has one.</summary>
    long Id { get; }

    /// <summary>This side's address, or null before there is one. Stays readable after the end.</summary>
    EndPoint? LocalEndPoint { get; }

    /// <summary>The peer's address; null for a Unix peer without a name. Stays readable after the end.</summary>
    EndPoint? RemoteEndPoint { get; }

    /// <summary>Anything the user wants to keep with the connection. The library never looks at it.</summary>
    object? Tag { get; set; }

    /// <summary>Bytes taken by sends and not yet given to the system.</summary>
    long BytesPending { get; }

    /// <summary>Queues a copy of the bytes. See <see cref="SendResult"/>.</summary>
    /// <param name="data">What to send.</param>
    SendResult Send(ReadOnlyMemory<byte> data);

    /// <summary>Queues the text as UTF-8.</summary>
    /// <param name="text">What to send.</param>
    SendResult Send(string text);

    /// <summary>Sends, waiting for room in the queue. The memory may be reused when the task completes.</summary>
    /// <param name="data">What to send.</param>
    /// <param name="cancellationToken">Gives up waiting; after the first piece of a message above the limit it aborts the connection.</param>
    ValueTask<SendResult> SendAsync(ReadOnlyMemory<byte> data, CancellationToken cancellationToken = default);

    /// <summary>Ends the connection gracefully: nothing is delivered any more, what is queued is sent, then FIN.</summary>
    void Close();

    /// <summary>Ends the connection now: discards what is queued and resets.</summary>
    void Abort();

    /// <summary>Stops deliveries until <see cref="ResumeReceiving"/>.</summary>
    void PauseReceiving();

    /// <summary>Starts deliveries again.</summary>
    void ResumeReceiving();
}
