namespace Whimbrel.Conformance;

// State of a session's send queue, on every engine.
public sealed class EpollTcpSendLimit() : SendLimitSuite(Transport.EpollTcp);

public sealed class EpollPoolSendLimit() : SendLimitSuite(Transport.EpollPool);

public sealed class EpollTlsSendLimit() : SendLimitSuite(Transport.EpollTls);

#if PORTABLE
public sealed class PortableTcpSendLimit() : SendLimitSuite(Transport.PortableTcp);
#endif

#if MEMORY
public sealed class MemoryTcpSendLimit() : SendLimitSuite(Transport.MemoryTcp);

public sealed class MemoryPoolSendLimit() : SendLimitSuite(Transport.MemoryPool);

public sealed class MemoryTlsSendLimit() : SendLimitSuite(Transport.MemoryTls);
#endif
