namespace Whimbrel.Conformance;

// What a server does beyond its plain life: accepting, placing, announcing, counting.
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

#if MEMORY
public sealed class MemoryTcpAccepting() : AcceptSuite(Transport.MemoryTcp);

public sealed class MemoryTcpServerLives() : ServerLifeSuite(Transport.MemoryTcp);

public sealed class MemoryTcpCounters() : CounterSuite(Transport.MemoryTcp);

public sealed class MemoryUnixAccepting() : AcceptSuite(Transport.MemoryUnix);

public sealed class MemoryUnixServerLives() : ServerLifeSuite(Transport.MemoryUnix);

public sealed class MemoryUnixCounters() : CounterSuite(Transport.MemoryUnix);
#endif
