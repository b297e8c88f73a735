namespace Whimbrel.Conformance;

// Dialling and reconnecting, on every engine.
public sealed class EpollTcpDials() : DialSuite(Transport.EpollTcp);

public sealed class EpollUnixDials() : DialSuite(Transport.EpollUnix);

public sealed class EpollTcpReconnects() : ReconnectSuite(Transport.EpollTcp);

public sealed class EpollUnixReconnects() : ReconnectSuite(Transport.EpollUnix);

public sealed class EpollRealAddresses() : RealAddressSuite(Transport.EpollTcp);

#if PORTABLE
public sealed class PortableTcpDials() : DialSuite(Transport.PortableTcp);

public sealed class PortableUnixDials() : DialSuite(Transport.PortableUnix);

public sealed class PortableTcpReconnects() : ReconnectSuite(Transport.PortableTcp);

public sealed class PortableUnixReconnects() : ReconnectSuite(Transport.PortableUnix);

public sealed class PortableRealAddresses() : RealAddressSuite(Transport.PortableTcp);
#endif

#if MEMORY
public sealed class MemoryTcpDials() : DialSuite(Transport.MemoryTcp);

public sealed class MemoryUnixDials() : DialSuite(Transport.MemoryUnix);

public sealed class MemoryTcpReconnects() : ReconnectSuite(Transport.MemoryTcp);

public sealed class MemoryUnixReconnects() : ReconnectSuite(Transport.MemoryUnix);
#endif
