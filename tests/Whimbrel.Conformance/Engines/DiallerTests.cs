namespace Whimbrel.Conformance;

public sealed class UringTcpDialler() : DiallerSuite(Transport.UringTcp);

public sealed class EpollTcpDialler() : DiallerSuite(Transport.EpollTcp);

public sealed class EpollUnixDialler() : DiallerSuite(Transport.EpollUnix);

public sealed class EpollPoolDialler() : DiallerSuite(Transport.EpollPool);

public sealed class EpollTlsDialler() : DiallerSuite(Transport.EpollTls);

#if PORTABLE
public sealed class PortableTcpDialler() : DiallerSuite(Transport.PortableTcp);
#endif

#if MEMORY
public sealed class MemoryTcpDialler() : DiallerSuite(Transport.MemoryTcp);

public sealed class MemoryPoolDialler() : DiallerSuite(Transport.MemoryPool);
#endif
