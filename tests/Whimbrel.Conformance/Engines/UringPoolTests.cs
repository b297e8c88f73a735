namespace Whimbrel.Conformance;

// Callbacks on the thread pool (contract 14) on the io_uring engine.
public sealed class UringPoolPool() : PoolSuite(Transport.UringPool);

public sealed class UringPoolLifecycle() : LifecycleSuite(Transport.UringPool);

public sealed class UringPoolReceiving() : ReceivingSuite(Transport.UringPool);

public sealed class UringPoolPause() : PauseSuite(Transport.UringPool);

public sealed class UringPoolClosing() : ClosingSuite(Transport.UringPool);

public sealed class UringPoolSending() : SendingSuite(Transport.UringPool);

public sealed class UringPoolErrors() : ErrorSuite(Transport.UringPool);

public sealed class UringPoolConcurrency() : ConcurrencySuite(Transport.UringPool);

public sealed class UringPoolServers() : ServerSuite(Transport.UringPool);

public sealed class UringPoolSendAsync() : SendAsyncSuite(Transport.UringPool);

public sealed class UringPoolOrder() : OrderSuite(Transport.UringPool);

public sealed class UringPoolLimit() : LimitSuite(Transport.UringPool);

public sealed class UringPoolBackPressure() : BackPressureSuite(Transport.UringPool);

public sealed class UringPoolHandOver() : HandOverSuite(Transport.UringPool);

public sealed class UringPoolGroups() : GroupSuite(Transport.UringPool);

public sealed class UringPoolTimers() : TimerSuite(Transport.UringPool);

public sealed class UringPoolTraffic() : TrafficSuite(Transport.UringPool);

public sealed class UringPoolStress() : StressSuite(Transport.UringPool);
