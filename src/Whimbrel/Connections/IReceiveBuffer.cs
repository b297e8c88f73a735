namespace Whimbrel.Connections;

/// <summary>
/// Memory into which an engine receives large amounts instead of its own block, so that the owner of the memory does
/// not have to copy. <see cref="Connection.BulkBuffer"/> selects it. Loop's thread.
/// </summary>
internal interface IReceiveBuffer
{
    /// <summary>
    /// Returns space for one receive. Empty: there is none now, and the engine uses its own block. Otherwise
    /// <see cref="Done"/> follows.
    /// </summary>
    Span<byte> Get();

    /// <summary>Called when the engine no longer writes to the memory: received data is delivered from here.</summary>
    /// <param name="connection">The connection that received the bytes.</param>
    /// <param name="received">Received part at the start of the space. Empty: nothing was received.</param>
    void Done(Connection connection, Span<byte> received);
}
