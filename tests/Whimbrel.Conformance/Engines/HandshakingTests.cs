namespace Whimbrel.Conformance;

public sealed class EpollHandshaking() : HandshakingSuite(Transport.EpollTcp);

public sealed class EpollOpenSslHandshaking() : HandshakingSuite(Transport.EpollWithOpenSsl);

public sealed class EpollPoolHandshaking() : HandshakingSuite(Transport.EpollPool);

public sealed class EpollPoolOpenSslHandshaking() : HandshakingSuite(Transport.EpollPoolWithOpenSsl);

public sealed class UringHandshaking() : HandshakingSuite(Transport.UringTcp);

public sealed class PortableHandshaking() : HandshakingSuite(Transport.PortableTcp);

public sealed class PortablePoolHandshaking() : HandshakingSuite(Transport.PortablePool);

#if MEMORY
public sealed class MemoryHandshaking() : HandshakingSuite(Transport.MemoryTcp);

public sealed class MemoryPoolHandshaking() : HandshakingSuite(Transport.MemoryPool);
#endif
