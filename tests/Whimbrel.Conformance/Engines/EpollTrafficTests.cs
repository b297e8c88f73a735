namespace Whimbrel.Conformance;

// The epoll engine: the suites about traffic, groups, timers and stress, over TCP and over Unix sockets.
public sealed class EpollTcpSendAsync() : SendAsyncSuite(Transport.EpollTcp);

public sealed class EpollUnixSendAsync() : SendAsyncSuite(Transport.EpollUnix);

public sealed class EpollTcpOrder() : OrderSuite(Transport.EpollTcp);

public sealed class EpollUnixOrder() : OrderSuite(Transport.EpollUnix);

public sealed class EpollTcpLimit() : LimitSuite(Transport.EpollTcp);

public sealed class EpollUnixLimit() : LimitSuite(Transport.EpollUnix);

public sealed class EpollTcpBackPressure() : BackPressureSuite(Transport.EpollTcp);

public sealed class EpollUnixBackPressure() : BackPressureSuite(Transport.EpollUnix);
