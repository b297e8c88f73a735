namespace Whimbrel.Conformance;

// Callbacks on the thread pool, on the io_uring engine: what touches its sends.
public sealed class UringPoolBlocking() : BlockingSuite(Transport.UringPool);

public sealed class UringPoolPool() : PoolSuite(Transport.UringPool);

public sealed class UringPoolSending() : SendingSuite(Transport.UringPool);

public sealed class UringPoolBackPressure() : BackPressureSuite(Transport.UringPool);
