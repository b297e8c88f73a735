namespace Whimbrel.Conformance;

public sealed class EpollTimeLimit() : TimeLimitSuite(Transport.EpollTcp);

public sealed class EpollTlsTimeLimit() : TimeLimitSuite(Transport.EpollTls);

public sealed class EpollOpenSslTimeLimit() : TimeLimitSuite(Transport.EpollOpenSsl);

public sealed class EpollPoolTimeLimit() : TimeLimitSuite(Transport.EpollPool);

public sealed class UringTimeLimit() : TimeLimitSuite(Transport.UringTcp);

public sealed class PortableTimeLimit() : TimeLimitSuite(Transport.PortableTcp);

#if MEMORY
public sealed class MemoryTimeLimit() : TimeLimitSuite(Transport.MemoryTcp);

public sealed class MemoryTlsTimeLimit() : TimeLimitSuite(Transport.MemoryTls);

public sealed class MemoryPoolTimeLimit() : TimeLimitSuite(Transport.MemoryPool);
#endif
