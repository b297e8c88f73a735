namespace Whimbrel.Conformance;

// Broadcasts in several forms and of shared bytes: every engine, loop and pool, plain and TLS.
public sealed class UringTcpFormedBroadcast() : FormedBroadcastSuite(Transport.UringTcp);

public sealed class UringPoolFormedBroadcast() : FormedBroadcastSuite(Transport.UringPool);

public sealed class UringTlsFormedBroadcast() : FormedBroadcastSuite(Transport.UringTls);

public sealed class EpollTcpFormedBroadcast() : FormedBroadcastSuite(Transport.EpollTcp);

public sealed class EpollPoolFormedBroadcast() : FormedBroadcastSuite(Transport.EpollPool);

public sealed class EpollTlsFormedBroadcast() : FormedBroadcastSuite(Transport.EpollTls);

public sealed class EpollPoolTlsFormedBroadcast() : FormedBroadcastSuite(Transport.EpollPoolTls);

public sealed class PortableUnixFormedBroadcast() : FormedBroadcastSuite(Transport.PortableUnix);

public sealed class PortablePoolFormedBroadcast() : FormedBroadcastSuite(Transport.PortablePool);

#if MEMORY
public sealed class MemoryTcpFormedBroadcast() : FormedBroadcastSuite(Transport.MemoryTcp);

public sealed class MemoryPoolFormedBroadcast() : FormedBroadcastSuite(Transport.MemoryPool);

public sealed class MemoryTlsFormedBroadcast() : FormedBroadcastSuite(Transport.MemoryTls);
#endif
