#if MEMORY
namespace Whimbrel.Conformance;

// The memory engine: every suite over both forms of address, with several seeds. It has no real addresses to test.
public sealed class MemoryTcpLifecycle() : LifecycleSuite(Transport.MemoryTcp);

public sealed class MemoryUnixLifecycle() : LifecycleSuite(Transport.MemoryUnix);

public sealed class MemoryTcpReceiving() : ReceivingSuite(Transport.MemoryTcp);

public sealed class MemoryUnixReceiving() : ReceivingSuite(Transport.MemoryUnix);

public sealed class MemoryTcpPause() : PauseSuite(Transport.MemoryTcp);

public sealed class MemoryUnixPause() : PauseSuite(Transport.MemoryUnix);

public sealed class MemoryTcpClosing() : ClosingSuite(Transport.MemoryTcp);

public sealed class MemoryUnixClosing() : ClosingSuite(Transport.MemoryUnix);

public sealed class MemoryTcpSending() : SendingSuite(Transport.MemoryTcp);

public sealed class MemoryUnixSending() : SendingSuite(Transport.MemoryUnix);

public sealed class MemoryTcpErrors() : ErrorSuite(Transport.MemoryTcp);

public sealed class MemoryUnixErrors() : ErrorSuite(Transport.MemoryUnix);

public sealed class MemoryTcpConcurrency() : ConcurrencySuite(Transport.MemoryTcp);

public sealed class MemoryUnixConcurrency() : ConcurrencySuite(Transport.MemoryUnix);

public sealed class MemoryTcpServers() : ServerSuite(Transport.MemoryTcp);

public sealed class MemoryUnixServers() : ServerSuite(Transport.MemoryUnix);

public sealed class MemoryTcpLoops() : LoopSuite(Transport.MemoryTcp);

public sealed class MemoryUnixLoops() : LoopSuite(Transport.MemoryUnix);
#endif
