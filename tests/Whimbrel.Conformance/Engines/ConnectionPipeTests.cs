namespace Whimbrel.Conformance;

// Connections as pipes, on every engine, plain, over TLS and with the server's callbacks on the pool.
public sealed class EpollTcpConnectionPipe() : ConnectionPipeSuite(Transport.EpollTcp);

public sealed class EpollTlsConnectionPipe() : ConnectionPipeSuite(Transport.EpollTls);

public sealed class EpollPoolConnectionPipe() : ConnectionPipeSuite(Transport.EpollPool);

public sealed class UringTcpConnectionPipe() : ConnectionPipeSuite(Transport.UringTcp);

public sealed class UringTlsConnectionPipe() : ConnectionPipeSuite(Transport.UringTls);

#if PORTABLE
public sealed class PortableUnixConnectionPipe() : ConnectionPipeSuite(Transport.PortableUnix);

public sealed class PortableTlsConnectionPipe() : ConnectionPipeSuite(Transport.PortableTls);
#endif

#if MEMORY
public sealed class MemoryTcpConnectionPipe() : ConnectionPipeSuite(Transport.MemoryTcp);

public sealed class MemoryTlsConnectionPipe() : ConnectionPipeSuite(Transport.MemoryTls);
#endif
