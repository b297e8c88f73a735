namespace Whimbrel.Conformance;

// What callbacks on the pool have sent and what goes on from them elsewhere: every engine, plain and TLS.
public sealed class EpollPoolGathering() : GatheringSuite(Transport.EpollPool);

public sealed class EpollPoolTlsGathering() : GatheringSuite(Transport.EpollPoolTls);

public sealed class UringPoolGathering() : GatheringSuite(Transport.UringPool);

public sealed class PortablePoolGathering() : GatheringSuite(Transport.PortablePool);

#if MEMORY
public sealed class MemoryPoolGathering() : GatheringSuite(Transport.MemoryPool);
#endif
