#if MEMORY
namespace Whimbrel.Conformance;

// The memory engine: the suites about traffic, groups, timers and stress.
public sealed class MemoryTcpSendAsync() : SendAsyncSuite(Transport.MemoryTcp);

public sealed class MemoryUnixSendAsync() : SendAsyncSuite(Transport.MemoryUnix);
#endif
