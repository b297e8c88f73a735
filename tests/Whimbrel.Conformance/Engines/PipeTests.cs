namespace Whimbrel.Conformance;

// Pipes between two sessions, on every engine, on the loop and on the pool, plain and over TLS.
public sealed class UringTcpPipe() : PipeSuite(Transport.UringTcp);

public sealed class UringPoolPipe() : PipeSuite(Transport.UringPool);

public sealed class UringTlsPipe() : PipeSuite(Transport.UringTls);

public sealed class EpollTcpPipe() : PipeSuite(Transport.EpollTcp);

public sealed class EpollUnixPipe() : PipeSuite(Transport.EpollUnix);

public sealed class EpollPoolPipe() : PipeSuite(Transport.EpollPool);

public sealed class EpollTlsPipe() : PipeSuite(Transport.EpollTls);

public sealed class EpollPoolTlsPipe() : PipeSuite(Transport.EpollPoolTls);

#if PORTABLE
public sealed class PortableTcpPipe() : PipeSuite(Transport.PortableTcp);

public sealed class PortablePoolPipe() : PipeSuite(Transport.PortablePool);

public sealed class PortableTlsPipe() : PipeSuite(Transport.PortableTls);
#endif

#if MEMORY
public sealed class MemoryTcpPipe() : PipeSuite(Transport.MemoryTcp);

public sealed class MemoryPoolPipe() : PipeSuite(Transport.MemoryPool);

public sealed class MemoryTlsPipe() : PipeSuite(Transport.MemoryTls);
#endif
