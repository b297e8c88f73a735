namespace Whimbrel.Conformance;

// The suites of traffic, groups, timers and stress on the io_uring engine, over TCP and over Unix sockets. They are
// skipped where the system does not allow io_uring.
public sealed class UringTcpSendAsync() : SendAsyncSuite(Transport.UringTcp);

public sealed class UringUnixSendAsync() : SendAsyncSuite(Transport.UringUnix);

public sealed class UringTcpOrder() : OrderSuite(Transport.UringTcp);

public sealed class UringUnixOrder() : OrderSuite(Transport.UringUnix);

public sealed class UringTcpLimit() : LimitSuite(Transport.UringTcp);

public sealed class UringUnixLimit() : LimitSuite(Transport.UringUnix);

public sealed class UringTcpBackPressure() : BackPressureSuite(Transport.UringTcp);

public sealed class UringUnixBackPressure() : BackPressureSuite(Transport.UringUnix);

public sealed class UringTcpHandOver() : HandOverSuite(Transport.UringTcp);

public sealed class UringUnixHandOver() : HandOverSuite(Transport.UringUnix);

public sealed class UringTcpGroup() : GroupSuite(Transport.UringTcp);

public sealed class UringUnixGroup() : GroupSuite(Transport.UringUnix);

public sealed class UringTcpTimer() : TimerSuite(Transport.UringTcp);

public sealed class UringUnixTimer() : TimerSuite(Transport.UringUnix);

public sealed class UringTcpPost() : PostSuite(Transport.UringTcp);

public sealed class UringUnixPost() : PostSuite(Transport.UringUnix);

public sealed class UringTcpStress() : StressSuite(Transport.UringTcp);

public sealed class UringUnixStress() : StressSuite(Transport.UringUnix);
