namespace Whimbrel.Conformance;

// Bodies read from sessions by other code, on every engine, on the loop and on the pool, plain and over TLS.
public sealed class UringTcpBody() : BodySuite(Transport.UringTcp);

public sealed class UringPoolBody() : BodySuite(Transport.UringPool);

public sealed class UringTlsBody() : BodySuite(Transport.UringTls);

public sealed class EpollTcpBody() : BodySuite(Transport.EpollTcp);

public sealed class EpollUnixBody() : BodySuite(Transport.EpollUnix);

public sealed class EpollPoolBody() : BodySuite(Transport.EpollPool);

public sealed class EpollTlsBody() : BodySuite(Transport.EpollTls);

public sealed class EpollPoolTlsBody() : BodySuite(Transport.EpollPoolTls);

#if PORTABLE
public sealed class PortableTcpBody() : BodySuite(Transport.PortableTcp);

public sealed class PortablePoolBody() : BodySuite(Transport.PortablePool);

public sealed class PortableTlsBody() : BodySuite(Transport.PortableTls);
#endif

#if MEMORY
public sealed class MemoryTcpBody() : BodySuite(Transport.MemoryTcp);

public sealed class MemoryPoolBody() : BodySuite(Transport.MemoryPool);

public sealed class MemoryTlsBody() : BodySuite(Transport.MemoryTls);
#endif
