namespace Whimbrel.Conformance;

// The epoll engine: every suite over TCP and over Unix sockets.
public sealed class EpollTcpLifecycle() : LifecycleSuite(Transport.EpollTcp);

public sealed class EpollUnixLifecycle() : LifecycleSuite(Transport.EpollUnix);

public sealed class EpollTcpReceiving() : ReceivingSuite(Transport.EpollTcp);

public sealed class EpollUnixReceiving() : ReceivingSuite(Transport.EpollUnix);

public sealed class EpollTcpPause() : PauseSuite(Transport.EpollTcp);

public sealed class EpollUnixPause() : PauseSuite(Transport.EpollUnix);

public sealed class EpollTcpClosing() : ClosingSuite(Transport.EpollTcp);

public sealed class EpollUnixClosing() : ClosingSuite(Transport.EpollUnix);

public sealed class EpollTcpSending() : SendingSuite(Transport.EpollTcp);

public sealed class EpollUnixSending() : SendingSuite(Transport.EpollUnix);

public sealed class EpollTcpErrors() : ErrorSuite(Transport.EpollTcp);

public sealed class EpollUnixErrors() : ErrorSuite(Transport.EpollUnix);

public sealed class EpollTcpConcurrency() : ConcurrencySuite(Transport.EpollTcp);

public sealed class EpollUnixConcurrency() : ConcurrencySuite(Transport.EpollUnix);

public sealed class EpollTcpServers() : ServerSuite(Transport.EpollTcp);

public sealed class EpollUnixServers() : ServerSuite(Transport.EpollUnix);

public sealed class EpollTcpLoops() : LoopSuite(Transport.EpollTcp);

public sealed class EpollUnixLoops() : LoopSuite(Transport.EpollUnix);

public sealed class EpollTcpAddresses() : TcpAddressSuite(Transport.EpollTcp);

public sealed class EpollUnixAddresses() : UnixAddressSuite(Transport.EpollUnix);
