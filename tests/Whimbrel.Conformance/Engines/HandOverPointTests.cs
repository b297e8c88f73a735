namespace Whimbrel.Conformance;

// Hand-over in every callback: on the loop and on the pool, with both providers.
public sealed class EpollTcpHandOverPoint() : HandOverPointSuite(Transport.EpollTcp);

public sealed class EpollOpenSslHandOverPoint() : HandOverPointSuite(Transport.EpollWithOpenSsl);

public sealed class EpollPoolHandOverPoint() : HandOverPointSuite(Transport.EpollPool);

public sealed class EpollPoolOpenSslHandOverPoint() : HandOverPointSuite(Transport.EpollPoolWithOpenSsl);

public sealed class PortableTcpHandOverPoint() : HandOverPointSuite(Transport.PortableTcp);

public sealed class PortablePoolHandOverPoint() : HandOverPointSuite(Transport.PortablePool);

public sealed class UringTcpHandOverPoint() : HandOverPointSuite(Transport.UringTcp);

#if MEMORY
public sealed class MemoryTcpHandOverPoint() : HandOverPointSuite(Transport.MemoryTcp);

public sealed class MemoryPoolHandOverPoint() : HandOverPointSuite(Transport.MemoryPool);
#endif
