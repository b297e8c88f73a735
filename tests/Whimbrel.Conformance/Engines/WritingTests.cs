namespace Whimbrel.Conformance;

// Messages of a MessageWriter, on every engine, on the loop and on the pool, plain and over TLS.
public sealed class UringTcpWriting() : WritingSuite(Transport.UringTcp);

public sealed class UringPoolWriting() : WritingSuite(Transport.UringPool);

public sealed class UringTlsWriting() : WritingSuite(Transport.UringTls);

public sealed class EpollTcpWriting() : WritingSuite(Transport.EpollTcp);

public sealed class EpollUnixWriting() : WritingSuite(Transport.EpollUnix);

public sealed class EpollPoolWriting() : WritingSuite(Transport.EpollPool);

public sealed class EpollTlsWriting() : WritingSuite(Transport.EpollTls);

public sealed class EpollPoolTlsWriting() : WritingSuite(Transport.EpollPoolTls);

#if PORTABLE
public sealed class PortableTcpWriting() : WritingSuite(Transport.PortableTcp);

public sealed class PortablePoolWriting() : WritingSuite(Transport.PortablePool);

public sealed class PortableTlsWriting() : WritingSuite(Transport.PortableTls);
#endif

#if MEMORY
public sealed class MemoryTcpWriting() : WritingSuite(Transport.MemoryTcp);

public sealed class MemoryPoolWriting() : WritingSuite(Transport.MemoryPool);

public sealed class MemoryTlsWriting() : WritingSuite(Transport.MemoryTls);
#endif
