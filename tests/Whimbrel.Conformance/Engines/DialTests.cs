namespace Whimbrel.Conformance;

// Connecting and reconnecting, on every engine.
public sealed class EpollTcpDials() : DialSuite(Transport.EpollTcp);

public sealed class EpollUnixDials() : DialSuite(Transport.EpollUnix);

public sealed class EpollTcpReconnects() : ReconnectSuite(Transport.EpollTcp);

public sealed class EpollUnixReconnects() : ReconnectSuite(Transport.EpollUnix);

public sealed class EpollPoolDials() : DialSuite(Transport.EpollPool);

public sealed class EpollPoolReconnects() : ReconnectSuite(Transport.EpollPool);

public sealed class EpollRealAddresses() : RealAddressSuite(Transport.EpollTcp);

#if PORTABLE
public sealed class PortableTcpDials() : DialSuite(Transport.PortableTcp);

public sealed class PortableUnixDials() : DialSuite(Transport.PortableUnix);

public sealed class PortableTcpReconnects() : ReconnectSuite(Transport.PortableTcp);

public sealed class PortableUnixReconnects() : ReconnectSuite(Transport.PortableUnix);

public sealed class PortablePoolReconnects() : ReconnectSuite(Transport.PortablePool);

public sealed class PortableRealAddresses() : RealAddressSuite(Transport.PortableTcp);
#endif

#if MEMORY
public sealed class MemoryPoolDials() : DialSuite(Transport.MemoryPool);

public sealed class MemoryPoolReconnects() : ReconnectSuite(Transport.MemoryPool);

public sealed class MemoryTcpDials() : DialSuite(Transport.MemoryTcp);

public sealed class MemoryUnixDials() : DialSuite(Transport.MemoryUnix);

public sealed class MemoryTcpReconnects() : ReconnectSuite(Transport.MemoryTcp);

public sealed class MemoryUnixReconnects() : ReconnectSuite(Transport.MemoryUnix);
#endif
