namespace Whimbrel.Conformance;

// Async receive methods, on every engine, on the loop and on the pool, plain and over TLS.
public sealed class UringTcpReceivedAsync() : ReceivedAsyncSuite(Transport.UringTcp);

public sealed class UringPoolReceivedAsync() : ReceivedAsyncSuite(Transport.UringPool);

public sealed class UringTlsReceivedAsync() : ReceivedAsyncSuite(Transport.UringTls);

public sealed class EpollTcpReceivedAsync() : ReceivedAsyncSuite(Transport.EpollTcp);

public sealed class EpollUnixReceivedAsync() : ReceivedAsyncSuite(Transport.EpollUnix);

public sealed class EpollPoolReceivedAsync() : ReceivedAsyncSuite(Transport.EpollPool);

public sealed class EpollTlsReceivedAsync() : ReceivedAsyncSuite(Transport.EpollTls);

public sealed class EpollPoolTlsReceivedAsync() : ReceivedAsyncSuite(Transport.EpollPoolTls);

#if PORTABLE
public sealed class PortableTcpReceivedAsync() : ReceivedAsyncSuite(Transport.PortableTcp);

public sealed class PortablePoolReceivedAsync() : ReceivedAsyncSuite(Transport.PortablePool);

public sealed class PortableTlsReceivedAsync() : ReceivedAsyncSuite(Transport.PortableTls);
#endif

#if MEMORY
public sealed class MemoryTcpReceivedAsync() : ReceivedAsyncSuite(Transport.MemoryTcp);

public sealed class MemoryPoolReceivedAsync() : ReceivedAsyncSuite(Transport.MemoryPool);

public sealed class MemoryTlsReceivedAsync() : ReceivedAsyncSuite(Transport.MemoryTls);
#endif
