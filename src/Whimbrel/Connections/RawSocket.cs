using System.Net.Sockets;

namespace Whimbrel.Connections;

/// <summary>
/// A connected socket on its way from a listener or connector to the connection that will own it: a descriptor for the
/// Linux engines, an object for the others. Whoever holds it closes it or passes it on. A deferred one (fast open) has not
/// asked its peer yet: it does so with its first bytes, or when the engine makes it.
/// </summary>
internal readonly record struct RawSocket(int Descriptor, object? Handle, bool IsDeferred = false)
{
    /// <summary>The user's own object, when CreateSocket made it: over the same socket, with a descriptor of its own.</summary>
    internal Socket? Made { get; init; }

    /// <summary>The descriptor's number on systems that have one; also of an object.</summary>
    internal int Number => Handle is Socket socket ? (int)socket.Handle : Descriptor;
}
