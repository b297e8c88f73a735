namespace Whimbrel.Conformance;

// Stops with user code that does not return, on every engine.
public sealed class EpollTcpStops() : StopSuite(Transport.EpollTcp);

public sealed class PortableTcpStops() : StopSuite(Transport.PortableTcp);

public sealed class PortableUnixStops() : StopSuite(Transport.PortableUnix);

public sealed class EpollPoolStops() : StopSuite(Transport.EpollPool);

#if MEMORY
public sealed class MemoryTcpStops() : StopSuite(Transport.MemoryTcp);

public sealed class MemoryPoolStops() : StopSuite(Transport.MemoryPool);
#endif
