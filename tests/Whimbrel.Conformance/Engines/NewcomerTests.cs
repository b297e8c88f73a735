namespace Whimbrel.Conformance;

public sealed class EpollNewcomer() : NewcomerSuite(Transport.EpollTcp);

public sealed class EpollUnixNewcomer() : NewcomerSuite(Transport.EpollUnix);

public sealed class EpollOpenSslNewcomer() : NewcomerSuite(Transport.EpollWithOpenSsl);

public sealed class EpollPoolNewcomer() : NewcomerSuite(Transport.EpollPool);

public sealed class EpollPoolOpenSslNewcomer() : NewcomerSuite(Transport.EpollPoolWithOpenSsl);

public sealed class UringNewcomer() : NewcomerSuite(Transport.UringTcp);

public sealed class PortableNewcomer() : NewcomerSuite(Transport.PortableTcp);

public sealed class PortablePoolNewcomer() : NewcomerSuite(Transport.PortablePool);

#if MEMORY
public sealed class MemoryNewcomer() : NewcomerSuite(Transport.MemoryTcp);

public sealed class MemoryPoolNewcomer() : NewcomerSuite(Transport.MemoryPool);
#endif
