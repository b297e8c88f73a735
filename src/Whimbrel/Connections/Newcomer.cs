namespace Whimbrel.Connections;

/// <summary>
/// Placeholder for the session of an accepted connection during its TLS handshake, if the factory needs the result of
/// the handshake. Has the id and the addresses, and gets no callbacks; events of the server skip it. Stays on the loop
/// with any scheduling: for callbacks on the pool, the strand begins with the session.
/// </summary>
internal sealed class Newcomer : Session
{
    internal override bool StaysOnLoop => true;

    internal override string DisplayName => "a connection in its TLS handshake";
}
