namespace Whimbrel.Conformance;

// Connecting and reconnecting, on every engine.
public sealed class EpollTcpConnects() : ConnectSuite(Transport.EpollTcp);

public sealed class EpollUnixConnects() : ConnectSuite(Transport.EpollUnix);

public sealed class EpollTcpReconnects() : ReconnectSuite(Transport.EpollTcp);

public sealed class EpollUnixReconnects() : ReconnectSuite(Transport.EpollUnix);

public sealed class EpollPoolConnects() : ConnectSuite(Transport.EpollPool);

public sealed class EpollPoolReconnects() : ReconnectSuite(Transport.EpollPool);

public sealed class EpollRealAddresses() : RealAddressSuite(Transport.EpollTcp);

#if PORTABLE
public sealed class PortableTcpConnects() : ConnectSuite(Transport.PortableTcp);

public sealed class PortableUnixConnects() : ConnectSuite(Transport.PortableUnix);

public sealed class PortableTcpReconnects() : ReconnectSuite(Transport.PortableTcp);

public sealed class PortableUnixReconnects() : ReconnectSuite(Transport.PortableUnix);

public sealed class PortablePoolReconnects() : ReconnectSuite(Transport.PortablePool);

public sealed class PortableRealAddresses() : RealAddressSuite(Transport.PortableTcp);
#endif

#if MEMORY
public sealed class MemoryPoolConnects() : ConnectSuite(Transport.MemoryPool);

public sealed class MemoryPoolReconnects() : ReconnectSuite(Transport.MemoryPool);

public sealed class MemoryTcpConnects() : ConnectSuite(Transport.MemoryTcp);

public sealed class MemoryUnixConnects() : ConnectSuite(Transport.MemoryUnix);

public sealed class MemoryTcpReconnects() : ReconnectSuite(Transport.MemoryTcp);

public sealed class MemoryUnixReconnects() : ReconnectSuite(Transport.MemoryUnix);
#endif
