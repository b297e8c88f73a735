namespace Whimbrel.Conformance;

// Posts to sessions, on every engine, on the loop and on the pool, plain and over TLS.
public sealed class UringTcpSessionPosts() : SessionPostSuite(Transport.UringTcp);

public sealed class UringUnixSessionPosts() : SessionPostSuite(Transport.UringUnix);

public sealed class UringTlsSessionPosts() : SessionPostSuite(Transport.UringTls);

public sealed class EpollTcpSessionPosts() : SessionPostSuite(Transport.EpollTcp);

public sealed class EpollUnixSessionPosts() : SessionPostSuite(Transport.EpollUnix);

public sealed class EpollPoolSessionPosts() : SessionPostSuite(Transport.EpollPool);

public sealed class EpollTlsSessionPosts() : SessionPostSuite(Transport.EpollTls);

public sealed class EpollPoolTlsSessionPosts() : SessionPostSuite(Transport.EpollPoolTls);

#if PORTABLE
public sealed class PortableTcpSessionPosts() : SessionPostSuite(Transport.PortableTcp);

public sealed class PortableUnixSessionPosts() : SessionPostSuite(Transport.PortableUnix);

public sealed class PortablePoolSessionPosts() : SessionPostSuite(Transport.PortablePool);
#endif

#if MEMORY
public sealed class MemoryTcpSessionPosts() : SessionPostSuite(Transport.MemoryTcp);

public sealed class MemoryUnixSessionPosts() : SessionPostSuite(Transport.MemoryUnix);

public sealed class MemoryPoolSessionPosts() : SessionPostSuite(Transport.MemoryPool);

public sealed class MemoryTlsSessionPosts() : SessionPostSuite(Transport.MemoryTls);
#endif
