namespace Whimbrel.Conformance;

// The engine as a service, awaitable posts and the forms of timers, on every engine.
public sealed class EpollTcpEngine() : EngineSuite(Transport.EpollTcp);

public sealed class EpollUnixEngine() : EngineSuite(Transport.EpollUnix);

public sealed class PortableTcpEngine() : EngineSuite(Transport.PortableTcp);

public sealed class PortableUnixEngine() : EngineSuite(Transport.PortableUnix);

public sealed class EpollTcpPostAsync() : PostAsyncSuite(Transport.EpollTcp);

public sealed class EpollUnixPostAsync() : PostAsyncSuite(Transport.EpollUnix);

public sealed class PortableTcpPostAsync() : PostAsyncSuite(Transport.PortableTcp);

public sealed class PortableUnixPostAsync() : PostAsyncSuite(Transport.PortableUnix);

public sealed class EpollTcpTimerForms() : TimerFormsSuite(Transport.EpollTcp);

public sealed class EpollUnixTimerForms() : TimerFormsSuite(Transport.EpollUnix);

public sealed class PortableTcpTimerForms() : TimerFormsSuite(Transport.PortableTcp);

public sealed class PortableUnixTimerForms() : TimerFormsSuite(Transport.PortableUnix);

#if MEMORY
public sealed class MemoryTcpEngine() : EngineSuite(Transport.MemoryTcp);

public sealed class MemoryUnixEngine() : EngineSuite(Transport.MemoryUnix);

public sealed class MemoryTcpPostAsync() : PostAsyncSuite(Transport.MemoryTcp);

public sealed class MemoryUnixPostAsync() : PostAsyncSuite(Transport.MemoryUnix);

public sealed class MemoryTcpTimerForms() : TimerFormsSuite(Transport.MemoryTcp);

public sealed class MemoryUnixTimerForms() : TimerFormsSuite(Transport.MemoryUnix);

#endif
