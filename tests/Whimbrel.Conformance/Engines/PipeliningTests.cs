namespace Whimbrel.Conformance;

// Clients that pipeline many requests: every engine, on the loop and on the pool, plain and with TLS.
public sealed class EpollTcpPipelining() : PipeliningSuite(Transport.EpollTcp);

public sealed class EpollUnixPipelining() : PipeliningSuite(Transport.EpollUnix);

public sealed class EpollPoolPipelining() : PipeliningSuite(Transport.EpollPool);

public sealed class EpollTlsPipelining() : PipeliningSuite(Transport.EpollTls);

public sealed class EpollPoolTlsPipelining() : PipeliningSuite(Transport.EpollPoolTls);

public sealed class EpollOpenSslPipelining() : PipeliningSuite(Transport.EpollOpenSsl);

public sealed class PortableTcpPipelining() : PipeliningSuite(Transport.PortableTcp);

public sealed class PortablePoolPipelining() : PipeliningSuite(Transport.PortablePool);

public sealed class PortableTlsPipelining() : PipeliningSuite(Transport.PortableTls);

#if MEMORY
public sealed class MemoryTcpPipelining() : PipeliningSuite(Transport.MemoryTcp);

public sealed class MemoryPoolPipelining() : PipeliningSuite(Transport.MemoryPool);

public sealed class MemoryTlsPipelining() : PipeliningSuite(Transport.MemoryTls);
#endif
