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

public sealed class EpollTcpHandOver() : HandOverSuite(Transport.EpollTcp);

public sealed class EpollUnixHandOver() : HandOverSuite(Transport.EpollUnix);

public sealed class EpollTcpGroup() : GroupSuite(Transport.EpollTcp);

public sealed class EpollUnixGroup() : GroupSuite(Transport.EpollUnix);

public sealed class EpollTcpTimer() : TimerSuite(Transport.EpollTcp);

public sealed class EpollUnixTimer() : TimerSuite(Transport.EpollUnix);

public sealed class EpollTcpPost() : PostSuite(Transport.EpollTcp);

public sealed class EpollUnixPost() : PostSuite(Transport.EpollUnix);

public sealed class EpollTcpStress() : StressSuite(Transport.EpollTcp);

public sealed class EpollUnixStress() : StressSuite(Transport.EpollUnix);
