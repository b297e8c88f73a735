namespace Whimbrel.Conformance;

// Messages extracted from the stream, on every engine, on the loop and on the pool, plain and over TLS.
public sealed class UringTcpFramed() : FramedSuite(Transport.UringTcp);

public sealed class UringPoolFramed() : FramedSuite(Transport.UringPool);

public sealed class UringTlsFramed() : FramedSuite(Transport.UringTls);

public sealed class EpollTcpFramed() : FramedSuite(Transport.EpollTcp);

public sealed class EpollPoolFramed() : FramedSuite(Transport.EpollPool);

public sealed class EpollTlsFramed() : FramedSuite(Transport.EpollTls);

public sealed class EpollPoolTlsFramed() : FramedSuite(Transport.EpollPoolTls);

#if PORTABLE
public sealed class PortableTcpFramed() : FramedSuite(Transport.PortableTcp);

public sealed class PortablePoolFramed() : FramedSuite(Transport.PortablePool);

public sealed class PortableTlsFramed() : FramedSuite(Transport.PortableTls);
#endif

#if MEMORY
public sealed class MemoryTcpFramed() : FramedSuite(Transport.MemoryTcp);

public sealed class MemoryPoolFramed() : FramedSuite(Transport.MemoryPool);

public sealed class MemoryTlsFramed() : FramedSuite(Transport.MemoryTls);
#endif
