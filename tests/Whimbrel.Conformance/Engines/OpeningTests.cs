namespace Whimbrel.Conformance;

public sealed class EpollOpening() : OpeningSuite(Transport.EpollTcp);

public sealed class EpollPoolOpening() : OpeningSuite(Transport.EpollPool);

public sealed class EpollTlsOpening() : OpeningSuite(Transport.EpollTls);

public sealed class UringOpening() : OpeningSuite(Transport.UringTcp);

public sealed class PortableOpening() : OpeningSuite(Transport.PortableTcp);

#if MEMORY
public sealed class MemoryOpening() : OpeningSuite(Transport.MemoryTcp);

public sealed class MemoryPoolOpening() : OpeningSuite(Transport.MemoryPool);

public sealed class MemoryTlsOpening() : OpeningSuite(Transport.MemoryTls);
#endif
