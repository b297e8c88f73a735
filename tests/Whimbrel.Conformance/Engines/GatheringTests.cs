namespace Whimbrel.Conformance;

// Sends of callbacks on the pool and of their continuations on other threads: every engine, plain and TLS.
public sealed class EpollPoolGathering() : GatheringSuite(Transport.EpollPool);

public sealed class EpollPoolTlsGathering() : GatheringSuite(Transport.EpollPoolTls);

public sealed class UringPoolGathering() : GatheringSuite(Transport.UringPool);

public sealed class PortablePoolGathering() : GatheringSuite(Transport.PortablePool);

#if MEMORY
public sealed class MemoryPoolGathering() : GatheringSuite(Transport.MemoryPool);
#endif
