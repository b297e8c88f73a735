using System.Net.Sockets;

namespace Whimbrel.Connections;

/// <summary>
/// A connected socket on its way from a listener or connect attempt to its connection: a descriptor for the Linux
/// engines, an object for the others. The current holder closes it or passes it on. A deferred one (fast open) has not
/// sent its SYN yet: it does so with its first bytes, or when the engine requests it.
/// </summary>
internal readonly record struct RawSocket(int Descriptor, object? Handle, bool IsDeferred = false)
{
    /// <summary>Object created by the user's factory, over the same socket with a descriptor of its own.</summary>
    internal Socket? Made { get; init; }

    /// <summary>Number of the descriptor, also of an object, on systems that have one.</summary>
    internal int Number => Handle is Socket socket ? (int)socket.Handle : Descriptor;
}
