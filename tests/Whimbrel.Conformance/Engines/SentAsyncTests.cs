namespace Whimbrel.Conformance;

// Completion of sends, on every engine, on the loop and on the pool, plain and over TLS.
public sealed class UringTcpSentAsync() : SentAsyncSuite(Transport.UringTcp);

public sealed class UringPoolSentAsync() : SentAsyncSuite(Transport.UringPool);

public sealed class UringTlsSentAsync() : SentAsyncSuite(Transport.UringTls);

public sealed class EpollTcpSentAsync() : SentAsyncSuite(Transport.EpollTcp);

public sealed class EpollPoolSentAsync() : SentAsyncSuite(Transport.EpollPool);

public sealed class EpollTlsSentAsync() : SentAsyncSuite(Transport.EpollTls);

public sealed class EpollPoolTlsSentAsync() : SentAsyncSuite(Transport.EpollPoolTls);

#if PORTABLE
public sealed class PortableTcpSentAsync() : SentAsyncSuite(Transport.PortableTcp);

public sealed class PortablePoolSentAsync() : SentAsyncSuite(Transport.PortablePool);
#endif

#if MEMORY
public sealed class MemoryTcpSentAsync() : SentAsyncSuite(Transport.MemoryTcp);

public sealed class MemoryPoolSentAsync() : SentAsyncSuite(Transport.MemoryPool);

public sealed class MemoryTlsSentAsync() : SentAsyncSuite(Transport.MemoryTls);
#endif
