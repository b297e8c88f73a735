namespace Whimbrel.Conformance;

// The guarantees of a connection, over TLS as well: the portable provider on epoll and on the portable engine, a layer
// without cryptography on the memory engine, because its seeds need the same bytes each time.
public sealed class EpollTlsLifecycle() : LifecycleSuite(Transport.EpollTls);

public sealed class EpollTlsReceiving() : ReceivingSuite(Transport.EpollTls);

public sealed class EpollTlsPause() : PauseSuite(Transport.EpollTls);

public sealed class EpollTlsClosing() : ClosingSuite(Transport.EpollTls);

public sealed class EpollTlsSending() : SendingSuite(Transport.EpollTls);

public sealed class EpollTlsBackPressure() : BackPressureSuite(Transport.EpollTls);

public sealed class EpollTlsGroup() : GroupSuite(Transport.EpollTls);

public sealed class EpollTlsConcurrency() : ConcurrencySuite(Transport.EpollTls);

public sealed class EpollTlsStream() : StreamSuite(Transport.EpollTls);

public sealed class EpollTlsHandOver() : HandOverSuite(Transport.EpollTls);

public sealed class PortableTlsReceiving() : ReceivingSuite(Transport.PortableTls);

public sealed class PortableTlsClosing() : ClosingSuite(Transport.PortableTls);

public sealed class EpollTlsFeature() : TlsSuite(Transport.EpollTcp);

public sealed class EpollUnixTlsFeature() : TlsSuite(Transport.EpollUnix);

public sealed class PortableTlsFeature() : TlsSuite(Transport.PortableTcp);

// The same with callbacks on the thread pool, including upgrades.
public sealed class EpollPoolTlsFeature() : TlsSuite(Transport.EpollPool);

public sealed class PortablePoolTlsFeature() : TlsSuite(Transport.PortablePool);

#if MEMORY
public sealed class MemoryPoolTlsFeature() : TlsSuite(Transport.MemoryPool);

public sealed class MemoryTlsFeature() : TlsSuite(Transport.MemoryTcp);

public sealed class MemoryTlsLifecycle() : LifecycleSuite(Transport.MemoryTls);

public sealed class MemoryTlsReceiving() : ReceivingSuite(Transport.MemoryTls);

public sealed class MemoryTlsPause() : PauseSuite(Transport.MemoryTls);

public sealed class MemoryTlsClosing() : ClosingSuite(Transport.MemoryTls);

public sealed class MemoryTlsSending() : SendingSuite(Transport.MemoryTls);

public sealed class MemoryTlsBackPressure() : BackPressureSuite(Transport.MemoryTls);

public sealed class MemoryTlsGroup() : GroupSuite(Transport.MemoryTls);

public sealed class MemoryTlsConcurrency() : ConcurrencySuite(Transport.MemoryTls);

public sealed class MemoryTlsHandOver() : HandOverSuite(Transport.MemoryTls);

public sealed class MemoryTlsOrder() : OrderSuite(Transport.MemoryTls);

public sealed class MemoryTlsLimit() : LimitSuite(Transport.MemoryTls);

public sealed class MemorySslStreamReceiving() : ReceivingSuite(Transport.MemorySslStream);
#endif
