namespace Whimbrel.Conformance;

// Calls and responses, on every engine, on the loop and on the pool, plain and over TLS.
public sealed class UringTcpCalls() : CallSuite(Transport.UringTcp);

public sealed class UringTlsCalls() : CallSuite(Transport.UringTls);

public sealed class EpollTcpCalls() : CallSuite(Transport.EpollTcp);

public sealed class EpollPoolCalls() : CallSuite(Transport.EpollPool);

public sealed class EpollPoolTlsCalls() : CallSuite(Transport.EpollPoolTls);

#if PORTABLE
public sealed class PortableTcpCalls() : CallSuite(Transport.PortableTcp);
#endif

#if MEMORY
public sealed class MemoryTcpCalls() : CallSuite(Transport.MemoryTcp);

public sealed class MemoryPoolCalls() : CallSuite(Transport.MemoryPool);

public sealed class MemoryTlsCalls() : CallSuite(Transport.MemoryTls);
#endif
