namespace Whimbrel.Conformance;

// Further features of a server: accepting, placing, announcing, counting.
public sealed class EpollTcpAccepting() : AcceptSuite(Transport.EpollTcp);

public sealed class EpollTcpServerLives() : ServerLifeSuite(Transport.EpollTcp);

public sealed class EpollTcpCounters() : CounterSuite(Transport.EpollTcp);

public sealed class EpollUnixAccepting() : AcceptSuite(Transport.EpollUnix);

public sealed class EpollUnixServerLives() : ServerLifeSuite(Transport.EpollUnix);

public sealed class EpollUnixCounters() : CounterSuite(Transport.EpollUnix);

public sealed class PortableTcpAccepting() : AcceptSuite(Transport.PortableTcp);

public sealed class PortableTcpServerLives() : ServerLifeSuite(Transport.PortableTcp);

public sealed class PortableTcpCounters() : CounterSuite(Transport.PortableTcp);

public sealed class PortableUnixAccepting() : AcceptSuite(Transport.PortableUnix);

public sealed class PortableUnixServerLives() : ServerLifeSuite(Transport.PortableUnix);

public sealed class PortableUnixCounters() : CounterSuite(Transport.PortableUnix);

public sealed class EpollPoolAccepting() : AcceptSuite(Transport.EpollPool);

public sealed class EpollPoolServerLives() : ServerLifeSuite(Transport.EpollPool);

public sealed class EpollPoolCounters() : CounterSuite(Transport.EpollPool);

public sealed class PortablePoolAccepting() : AcceptSuite(Transport.PortablePool);

public sealed class PortablePoolServerLives() : ServerLifeSuite(Transport.PortablePool);

public sealed class PortablePoolCounters() : CounterSuite(Transport.PortablePool);

#if MEMORY
public sealed class MemoryPoolAccepting() : AcceptSuite(Transport.MemoryPool);

public sealed class MemoryPoolServerLives() : ServerLifeSuite(Transport.MemoryPool);

public sealed class MemoryPoolCounters() : CounterSuite(Transport.MemoryPool);

public sealed class MemoryTcpAccepting() : AcceptSuite(Transport.MemoryTcp);

public sealed class MemoryTcpServerLives() : ServerLifeSuite(Transport.MemoryTcp);

public sealed class MemoryTcpCounters() : CounterSuite(Transport.MemoryTcp);

public sealed class MemoryUnixAccepting() : AcceptSuite(Transport.MemoryUnix);

public sealed class MemoryUnixServerLives() : ServerLifeSuite(Transport.MemoryUnix);

public sealed class MemoryUnixCounters() : CounterSuite(Transport.MemoryUnix);
#endif
