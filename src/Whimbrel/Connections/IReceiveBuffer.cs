namespace Whimbrel.Connections;

/// <summary>
/// Where an engine receives what comes much at a time, instead of its own block, so that nothing is copied afterwards: memory of who keeps the bytes
/// (<see cref="Connection.BulkBuffer"/> says whose). Loop's thread.
/// </summary>
internal interface IReceiveBuffer
{
    /// <summary>Room for one receive. Empty: there is none now, and the engine's own block is used. Otherwise <see cref="Done"/> follows.</summary>
    Span<byte> Get();

    /// <summary>The engine writes there no more, and looks at nothing of it: what has come is delivered from here.</summary>
    /// <param name="connection">Who received it.</param>
    /// <param name="received">The beginning of the room. Empty: nothing has come.</param>
    void Done(Connection connection, Span<byte> received);
}
