#if PORTABLE
namespace Whimbrel.Conformance;

// The portable engine: the suites about traffic, groups, timers and stress, over TCP and over Unix sockets.
public sealed class PortableTcpSendAsync() : SendAsyncSuite(Transport.PortableTcp);

public sealed class PortableUnixSendAsync() : SendAsyncSuite(Transport.PortableUnix);

public sealed class PortableTcpOrder() : OrderSuite(Transport.PortableTcp);

public sealed class PortableUnixOrder() : OrderSuite(Transport.PortableUnix);

public sealed class PortableTcpLimit() : LimitSuite(Transport.PortableTcp);

public sealed class PortableUnixLimit() : LimitSuite(Transport.PortableUnix);

public sealed class PortableTcpBackPressure() : BackPressureSuite(Transport.PortableTcp);

public sealed class PortableUnixBackPressure() : BackPressureSuite(Transport.PortableUnix);

public sealed class PortableTcpHandOver() : HandOverSuite(Transport.PortableTcp);

public sealed class PortableUnixHandOver() : HandOverSuite(Transport.PortableUnix);

public sealed class PortableTcpGroup() : GroupSuite(Transport.PortableTcp);

public sealed class PortableUnixGroup() : GroupSuite(Transport.PortableUnix);

public sealed class PortableTcpTimer() : TimerSuite(Transport.PortableTcp);

public sealed class PortableUnixTimer() : TimerSuite(Transport.PortableUnix);

public sealed class PortableTcpPost() : PostSuite(Transport.PortableTcp);

public sealed class PortableUnixPost() : PostSuite(Transport.PortableUnix);

public sealed class PortableTcpStress() : StressSuite(Transport.PortableTcp);

public sealed class PortableUnixStress() : StressSuite(Transport.PortableUnix);
#endif
