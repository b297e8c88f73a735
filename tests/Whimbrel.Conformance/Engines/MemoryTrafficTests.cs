#if MEMORY
namespace Whimbrel.Conformance;

// The memory engine: the suites about traffic, groups, timers and stress.
public sealed class MemoryTcpSendAsync() : SendAsyncSuite(Transport.MemoryTcp);

public sealed class MemoryUnixSendAsync() : SendAsyncSuite(Transport.MemoryUnix);

public sealed class MemoryTcpOrder() : OrderSuite(Transport.MemoryTcp);

public sealed class MemoryUnixOrder() : OrderSuite(Transport.MemoryUnix);

public sealed class MemoryTcpLimit() : LimitSuite(Transport.MemoryTcp);

public sealed class MemoryUnixLimit() : LimitSuite(Transport.MemoryUnix);

public sealed class MemoryTcpBackPressure() : BackPressureSuite(Transport.MemoryTcp);

public sealed class MemoryUnixBackPressure() : BackPressureSuite(Transport.MemoryUnix);

public sealed class MemoryTcpHandOver() : HandOverSuite(Transport.MemoryTcp);

public sealed class MemoryUnixHandOver() : HandOverSuite(Transport.MemoryUnix);

public sealed class MemoryTcpGroup() : GroupSuite(Transport.MemoryTcp);

public sealed class MemoryUnixGroup() : GroupSuite(Transport.MemoryUnix);

public sealed class MemoryTcpTimer() : TimerSuite(Transport.MemoryTcp);

public sealed class MemoryUnixTimer() : TimerSuite(Transport.MemoryUnix);

public sealed class MemoryTcpPost() : PostSuite(Transport.MemoryTcp);

public sealed class MemoryUnixPost() : PostSuite(Transport.MemoryUnix);

public sealed class MemoryTcpStress() : StressSuite(Transport.MemoryTcp);

public sealed class MemoryUnixStress() : StressSuite(Transport.MemoryUnix);
#endif
