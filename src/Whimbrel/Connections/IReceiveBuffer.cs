namespace Whimbrel.Connections;

/// <summary>
/// Memory into which an engine receives large amounts instead of its own block, so that the owner of the memory need not copy
/// the bytes. <see cref="Connection.BulkBuffer"/> selects it. Loop's thread.
/// </summary>
internal interface IReceiveBuffer
{
    /// <summary>Room for one receive. Empty: there is none now, and the engine's own block is used. Otherwise <see cref="Done"/> follows.</summary>
    Span<byte> Get();

    /// <summary>The engine writes there no more, and looks at nothing of it: what has come is delivered from here.</summary>
    /// <param name="connection">The connection that received the bytes.</param>
    /// <param name="received">The beginning of the room. Empty: nothing has come.</param>
    void Done(Connection connection, Span<byte> received);
}
