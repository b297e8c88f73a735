namespace Whimbrel.Conformance;

// When sends leave, and the threads of callbacks on the pool: every engine, plain and TLS; Flush on the loop as well.
public sealed class UringPoolDispatcher() : DispatcherSuite(Transport.UringPool);

public sealed class EpollPoolDispatcher() : DispatcherSuite(Transport.EpollPool);

public sealed class EpollPoolTlsDispatcher() : DispatcherSuite(Transport.EpollPoolTls);

public sealed class PortablePoolDispatcher() : DispatcherSuite(Transport.PortablePool);

public sealed class UringTcpFlush() : FlushSuite(Transport.UringTcp);

public sealed class UringPoolFlush() : FlushSuite(Transport.UringPool);

public sealed class UringTlsFlush() : FlushSuite(Transport.UringTls);

public sealed class EpollTcpFlush() : FlushSuite(Transport.EpollTcp);

public sealed class EpollTlsFlush() : FlushSuite(Transport.EpollTls);

public sealed class EpollPoolFlush() : FlushSuite(Transport.EpollPool);

public sealed class EpollPoolTlsFlush() : FlushSuite(Transport.EpollPoolTls);

public sealed class PortableUnixFlush() : FlushSuite(Transport.PortableUnix);

public sealed class PortablePoolFlush() : FlushSuite(Transport.PortablePool);

#if MEMORY
public sealed class MemoryPoolDispatcher() : DispatcherSuite(Transport.MemoryPool);

public sealed class MemoryTcpFlush() : FlushSuite(Transport.MemoryTcp);

public sealed class MemoryPoolFlush() : FlushSuite(Transport.MemoryPool);

public sealed class MemoryTlsFlush() : FlushSuite(Transport.MemoryTls);
#endif
