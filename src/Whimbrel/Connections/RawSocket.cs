using System.Diagnostics.CodeAnalysis;

namespace Whimbrel.Connections;

/// <summary>
/// A connected socket on its way from a listener or connector to the connection that will own it: a descriptor for the
/// Linux engines, an object for the others. Whoever holds it closes it or passes it on.
/// </summary>
internal readonly record struct RawSocket(int Descriptor, object? Handle);
