namespace Whimbrel.Conformance;

// Broadcasts in several forms and of shared bytes: every engine, loop and pool, plain and TLS.
public sealed class UringTcpSendToEach() : SendToEachSuite(Transport.UringTcp);

public sealed class UringPoolSendToEach() : SendToEachSuite(Transport.UringPool);

public sealed class UringTlsSendToEach() : SendToEachSuite(Transport.UringTls);

public sealed class EpollTcpSendToEach() : SendToEachSuite(Transport.EpollTcp);

public sealed class EpollPoolSendToEach() : SendToEachSuite(Transport.EpollPool);

public sealed class EpollTlsSendToEach() : SendToEachSuite(Transport.EpollTls);

public sealed class EpollPoolTlsSendToEach() : SendToEachSuite(Transport.EpollPoolTls);

public sealed class PortableUnixSendToEach() : SendToEachSuite(Transport.PortableUnix);

public sealed class PortablePoolSendToEach() : SendToEachSuite(Transport.PortablePool);

#if MEMORY
public sealed class MemoryTcpSendToEach() : SendToEachSuite(Transport.MemoryTcp);

public sealed class MemoryPoolSendToEach() : SendToEachSuite(Transport.MemoryPool);

public sealed class MemoryTlsSendToEach() : SendToEachSuite(Transport.MemoryTls);
#endif
