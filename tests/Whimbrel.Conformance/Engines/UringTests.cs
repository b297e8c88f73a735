namespace Whimbrel.Conformance;

// The io_uring engine, skipped where the system does not allow it: every suite over TCP and over Unix sockets.
public sealed class UringTcpLifecycle() : LifecycleSuite(Transport.UringTcp);

public sealed class UringUnixLifecycle() : LifecycleSuite(Transport.UringUnix);

public sealed class UringTcpReceiving() : ReceivingSuite(Transport.UringTcp);

public sealed class UringUnixReceiving() : ReceivingSuite(Transport.UringUnix);

public sealed class UringTcpPause() : PauseSuite(Transport.UringTcp);

public sealed class UringUnixPause() : PauseSuite(Transport.UringUnix);

public sealed class UringTcpClosing() : ClosingSuite(Transport.UringTcp);

public sealed class UringUnixClosing() : ClosingSuite(Transport.UringUnix);

public sealed class UringTcpSending() : SendingSuite(Transport.UringTcp);

public sealed class UringUnixSending() : SendingSuite(Transport.UringUnix);

public sealed class UringTcpErrors() : ErrorSuite(Transport.UringTcp);

public sealed class UringUnixErrors() : ErrorSuite(Transport.UringUnix);

public sealed class UringTcpConcurrency() : ConcurrencySuite(Transport.UringTcp);

public sealed class UringUnixConcurrency() : ConcurrencySuite(Transport.UringUnix);

public sealed class UringTcpServers() : ServerSuite(Transport.UringTcp);

public sealed class UringUnixServers() : ServerSuite(Transport.UringUnix);

public sealed class UringTcpLoops() : LoopSuite(Transport.UringTcp);

public sealed class UringUnixLoops() : LoopSuite(Transport.UringUnix);

public sealed class UringTcpAddresses() : TcpAddressSuite(Transport.UringTcp);

public sealed class UringUnixAddresses() : UnixAddressSuite(Transport.UringUnix);
