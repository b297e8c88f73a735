namespace Whimbrel.Connections;

/// <summary>
/// Stands for the session of an accepted connection until its TLS handshake is done, where the factory wants to see what was agreed on. Holds the id
/// and the addresses, hears nothing, and is seen by nobody: events of the server pass it by. Lives on the loop, whatever the scheduling: with
/// callbacks on the pool the strand begins with the session.
/// </summary>
internal sealed class Newcomer : Session
{
    internal override bool StaysOnLoop => true;

    internal override string DisplayName => "a connection in its TLS handshake";
}
