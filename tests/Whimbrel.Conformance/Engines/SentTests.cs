namespace Whimbrel.Conformance;

// Callbacks for sends, on every engine, over TCP and over Unix sockets.
public sealed class EpollTcpSent() : SentSuite(Transport.EpollTcp);

public sealed class EpollUnixSent() : SentSuite(Transport.EpollUnix);

#if PORTABLE
public sealed class PortableTcpSent() : SentSuite(Transport.PortableTcp);

public sealed class PortableUnixSent() : SentSuite(Transport.PortableUnix);
#endif

#if MEMORY
public sealed class MemoryTcpSent() : SentSuite(Transport.MemoryTcp);

public sealed class MemoryUnixSent() : SentSuite(Transport.MemoryUnix);
#endif
