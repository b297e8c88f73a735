namespace Whimbrel.Conformance;

// Callbacks on the thread pool (contract 14): the same suites, on every engine.
public sealed class EpollPoolPool() : PoolSuite(Transport.EpollPool);

public sealed class EpollPoolBlocking() : BlockingSuite(Transport.EpollPool);

public sealed class EpollPoolLifecycle() : LifecycleSuite(Transport.EpollPool);

public sealed class EpollPoolReceiving() : ReceivingSuite(Transport.EpollPool);

public sealed class EpollPoolPause() : PauseSuite(Transport.EpollPool);

public sealed class EpollPoolClosing() : ClosingSuite(Transport.EpollPool);

public sealed class EpollPoolSending() : SendingSuite(Transport.EpollPool);

public sealed class EpollPoolErrors() : ErrorSuite(Transport.EpollPool);

public sealed class EpollPoolConcurrency() : ConcurrencySuite(Transport.EpollPool);

public sealed class EpollPoolServers() : ServerSuite(Transport.EpollPool);

public sealed class EpollPoolSendAsync() : SendAsyncSuite(Transport.EpollPool);

public sealed class EpollPoolOrder() : OrderSuite(Transport.EpollPool);

public sealed class EpollPoolLimit() : LimitSuite(Transport.EpollPool);

public sealed class EpollPoolBackPressure() : BackPressureSuite(Transport.EpollPool);

public sealed class EpollPoolHandOver() : HandOverSuite(Transport.EpollPool);

public sealed class EpollPoolGroups() : GroupSuite(Transport.EpollPool);

public sealed class EpollPoolTimers() : TimerSuite(Transport.EpollPool);

public sealed class EpollPoolTraffic() : TrafficSuite(Transport.EpollPool);

public sealed class EpollPoolStress() : StressSuite(Transport.EpollPool);

public sealed class PortablePoolPool() : PoolSuite(Transport.PortablePool);

public sealed class PortablePoolBlocking() : BlockingSuite(Transport.PortablePool);

public sealed class PortablePoolLifecycle() : LifecycleSuite(Transport.PortablePool);

public sealed class PortablePoolReceiving() : ReceivingSuite(Transport.PortablePool);

public sealed class PortablePoolPause() : PauseSuite(Transport.PortablePool);

public sealed class PortablePoolClosing() : ClosingSuite(Transport.PortablePool);

public sealed class PortablePoolSending() : SendingSuite(Transport.PortablePool);

public sealed class PortablePoolErrors() : ErrorSuite(Transport.PortablePool);

public sealed class PortablePoolConcurrency() : ConcurrencySuite(Transport.PortablePool);

public sealed class PortablePoolServers() : ServerSuite(Transport.PortablePool);

public sealed class PortablePoolSendAsync() : SendAsyncSuite(Transport.PortablePool);

public sealed class PortablePoolOrder() : OrderSuite(Transport.PortablePool);

public sealed class PortablePoolLimit() : LimitSuite(Transport.PortablePool);

public sealed class PortablePoolBackPressure() : BackPressureSuite(Transport.PortablePool);

public sealed class PortablePoolHandOver() : HandOverSuite(Transport.PortablePool);

public sealed class PortablePoolGroups() : GroupSuite(Transport.PortablePool);

public sealed class PortablePoolTimers() : TimerSuite(Transport.PortablePool);

public sealed class PortablePoolTraffic() : TrafficSuite(Transport.PortablePool);

public sealed class PortablePoolStress() : StressSuite(Transport.PortablePool);

#if MEMORY
public sealed class MemoryPoolPool() : PoolSuite(Transport.MemoryPool);

public sealed class MemoryPoolLifecycle() : LifecycleSuite(Transport.MemoryPool);

public sealed class MemoryPoolReceiving() : ReceivingSuite(Transport.MemoryPool);

public sealed class MemoryPoolPause() : PauseSuite(Transport.MemoryPool);

public sealed class MemoryPoolClosing() : ClosingSuite(Transport.MemoryPool);

public sealed class MemoryPoolSending() : SendingSuite(Transport.MemoryPool);

public sealed class MemoryPoolErrors() : ErrorSuite(Transport.MemoryPool);

public sealed class MemoryPoolConcurrency() : ConcurrencySuite(Transport.MemoryPool);

public sealed class MemoryPoolServers() : ServerSuite(Transport.MemoryPool);

public sealed class MemoryPoolSendAsync() : SendAsyncSuite(Transport.MemoryPool);

public sealed class MemoryPoolOrder() : OrderSuite(Transport.MemoryPool);

public sealed class MemoryPoolLimit() : LimitSuite(Transport.MemoryPool);

public sealed class MemoryPoolBackPressure() : BackPressureSuite(Transport.MemoryPool);

public sealed class MemoryPoolHandOver() : HandOverSuite(Transport.MemoryPool);

public sealed class MemoryPoolGroups() : GroupSuite(Transport.MemoryPool);

public sealed class MemoryPoolTimers() : TimerSuite(Transport.MemoryPool);

public sealed class MemoryPoolTraffic() : TrafficSuite(Transport.MemoryPool);

public sealed class MemoryPoolStress() : StressSuite(Transport.MemoryPool);
#endif
